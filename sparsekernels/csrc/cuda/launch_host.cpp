// The kernels for a host compiler: only their file name differs.
#include "launch.cu"
