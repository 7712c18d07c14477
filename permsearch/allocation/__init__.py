"""Which pattern each layer of a network gets, when size, time or both are limited."""

from permsearch.allocation.allocate import Allocation, allocate
from permsearch.allocation.options import Option, dense_costs, layer_options

__all__ = ["Allocation", "Option", "allocate", "dense_costs", "layer_options"]
