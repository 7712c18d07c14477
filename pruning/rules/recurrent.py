"""LSTM, GRU and plain recurrent networks, kept whole by the capture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pruning.axes import Axis, axis, direct_sum, unify
from pruning.rules.base import (
    Call,
    Result,
    Table,
    Value,
    align,
    contract,
    fresh,
    opaque,
    stack_of,
    table,
)

GATES = {"lstm": 4, "gru": 3}


@dataclass(frozen=True, slots=True)
class Cell:
    """One layer in one direction: the axis of its units, and the one that it hands on."""

    units: Axis
    output: Axis


def recurrent(call: Call) -> Result:
    """Rows of every weight are one block of units for each gate; layers are chained."""
    if "batch_sizes" in call.args:
        return opaque(call, f"{call.op}: packed sequences")
    value, weights = call.tensor("input"), call.args["params"]
    layers, ways = int(call.args["num_layers"]), 1 + bool(call.args["bidirectional"])
    each = len(weights) // (layers * ways)
    for of in value.axes[:-1]:
        call.pin(of, "time or batch")
    inputs = value
    cells: list[Cell] = []
    for layer in range(layers):
        first = layer * ways
        own = [weights[(first + way) * each :][:each] for way in range(ways)]
        row = [cell(call, inputs, some) for some in own]
        cells += row
        inputs = Value([*value.axes[:-1], direct_sum([one.output for one in row])])
    states = call.args["hx"]
    _bind_states(states if isinstance(states, list | tuple) else [states], cells)
    return _outputs(call, inputs, cells)


def cell(call: Call, inputs: Value, weights: Sequence[Value]) -> Cell:
    """Tie the weights of one layer in one direction, and return its axes."""
    gates = GATES.get(call.op, 1)
    projected = len(weights) in (3, 5)
    projection = weights[-1] if projected else None
    units = axis(weights[0].shape[0] // gates, "hidden")
    output = units if projection is None else projection.axes[0]
    for weight in weights[: len(weights) - projected]:
        unify(weight.axes[0], direct_sum([units] * gates))
    contract(call, (inputs, [len(inputs.axes) - 1]), (weights[0], [1]))
    contract(call, (Value([output]), [0]), (weights[1], [1]))
    if projection is not None:
        contract(call, (Value([units]), [0]), (projection, [1]))
    return Cell(units, output)


def stepped(call: Call) -> Result:
    """One step of a cell: the new state lies along the units, as the old one does."""
    gates = {"lstm_cell": 4, "gru_cell": 3}.get(call.op, 1)
    weights = [call.get(name) for name in ("w_ih", "w_hh", "b_ih", "b_hh")]
    value, states = call.tensor("input"), call.args["hx"]
    units = axis(weights[0].shape[0] // gates, "hidden")
    for weight in weights:
        if weight is not None:
            unify(weight.axes[0], direct_sum([units] * gates))
    contract(call, (value, [len(value.axes) - 1]), (weights[0], [1]))
    contract(call, (Value([units]), [0]), (weights[1], [1]))
    states = list(states) if isinstance(states, list | tuple) else [states]
    _bind_states(states, [Cell(units, units)])
    batch = align([Value(one.axes[:-1], uniform=one.uniform) for one in [value, *states]], 1)
    return call.each(lambda shape: Value([*batch[len(batch) - len(shape) + 1 :], units]))


def _bind_states(states: Sequence[Value], cells: Sequence[Cell]) -> None:
    """First states lie along the units; a zero state binds nothing."""
    for index, state in enumerate(states):
        if not state.uniform:
            for one in cells:
                unify(state.axes[-1], one.units if index else one.output)


def _outputs(call: Call, last: Value, cells: Sequence[Cell]) -> Result:
    """Return the sequence, and last states with a slice for each layer and direction."""
    reason = f"{call.op}: time or batch"
    sequence = Value([*fresh(call.shapes[0][:-1], reason).axes, last.axes[-1]])
    found = [sequence]
    for index, shape in enumerate(call.shapes[1:]):
        middle = fresh(shape[1:-1], reason).axes
        slices = [Value([(), *middle, one.units if index else one.output]) for one in cells]
        found.append(stack_of(0, slices))
    return found


TABLE: Table = table(
    (recurrent, "lstm gru rnn_tanh rnn_relu"),
    (stepped, "lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell"),
)
