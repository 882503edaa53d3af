"""The shared library of CLBlast through ctypes: CLBlastSgemm, CLBlastOverrideParameters and RetrieveParameters.

The C interface (`clblast_c.h`, 1.5.3) has no function that returns the parameters in use, so `retrieve` calls the C++
function `clblast::RetrieveParameters`. Its arguments are laid out as libstdc++ does on Linux: a string is a pointer, a
length and 16 bytes; an unordered map is a table of buckets and a list of nodes (next, key, value).
"""

from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from seqtune.errors import UnavailableError

NAMES = ("libclblast.so.1", "libclblast.so")
PRECISION = 32  # bits: fp32
ROW_MAJOR, NOT_TRANSPOSED, TRANSPOSED = 101, 111, 112  # CLBlastLayout, CLBlastTranspose
BUILD_FAILED = -11  # CLBlastOpenCLBuildProgramFailure
_RETRIEVE = ("_ZN7clblast18RetrieveParametersEP13_cl_device_idRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
             "NS_9PrecisionERSt13unordered_mapIS7_mSt4hashIS7_ESt8equal_toIS7_ESaISt4pairIS8_mEEE")
# Status codes that a wrong configuration or a small device causes -> their meaning in `clblast_c.h`.
_MEANINGS = {
    -4: "a temporary buffer cannot be allocated", -5: "out of resources", -6: "out of host memory",
    BUILD_FAILED: "the kernels do not compile", -42: "invalid binary", -44: "invalid program",
    -45: "the program was not built for this device", -46: "the program lacks the kernel", -52: "invalid arguments",
    -54: "too many work-items in a group", -55: "too many work-items along an axis", -63: "invalid global size",
    -1011: "matrix A's buffer is too small", -1010: "matrix B's buffer is too small",
    -1009: "matrix C's buffer is too small", -1017: "a size is zero", -2046: "not enough local memory",
    -2047: "a parameter is missing", -2048: "unknown kernel", -2039: "the sizes of the tiles do not fit each other",
}

Parameters = Mapping[str, int]


class CLBlastError(Exception):
    """A status of CLBlast that is not success. `status` is its CLBlastStatusCode."""

    def __init__(self, function: str, status: int) -> None:
        super().__init__(f"{function} returned {status}: {_MEANINGS.get(status, 'see clblast_c.h')}")
        self.status = status


class _String(ctypes.Structure):
    _fields_ = (("text", ctypes.c_void_p), ("length", ctypes.c_size_t), ("room", ctypes.c_char * 16))


class _Map(ctypes.Structure):
    _fields_ = (("buckets", ctypes.c_void_p), ("bucket_count", ctypes.c_size_t), ("first", ctypes.c_void_p),
                ("count", ctypes.c_size_t), ("load", ctypes.c_float), ("next_resize", ctypes.c_size_t),
                ("single_bucket", ctypes.c_void_p))


class _Node(ctypes.Structure):
    _fields_ = (("next", ctypes.c_void_p), ("key", _String), ("value", ctypes.c_size_t))


class CLBlast:
    """The functions of the loaded library. Pointers are the integers of pyopencl's `int_ptr`."""

    def __init__(self, library: Any) -> None:
        self._library = library

    def override(self, device: int, kernel: str, parameters: Parameters) -> None:
        """Let this process use these parameters of a kernel on a device. Raises CLBlastError.

        All parameters of the kernel must be given. CLBlast does not check their values.
        """
        names = (ctypes.c_char_p * len(parameters))(*[name.encode() for name in parameters])
        values = (ctypes.c_size_t * len(parameters))(*parameters.values())
        _check("CLBlastOverrideParameters", self._library.CLBlastOverrideParameters(
            ctypes.c_void_p(device), kernel.encode(), PRECISION, ctypes.c_size_t(len(parameters)), names, values))

    def retrieve(self, device: int, kernel: str) -> dict[str, int]:
        """The parameters of a kernel that this process uses on a device, by name.

        Raises CLBlastError, or UnavailableError where the library does not export the function.
        """
        try:
            function = self._library[_RETRIEVE]
        except AttributeError:
            raise UnavailableError("this build of CLBlast does not tell its parameters (clblast::RetrieveParameters "
                                   "is missing)") from None
        text = ctypes.create_string_buffer(kernel.encode())
        key, answer = _String(ctypes.addressof(text), len(kernel)), _Map(bucket_count=1, load=1.0)
        answer.buckets = ctypes.addressof(answer) + _Map.single_bucket.offset
        _check("RetrieveParameters", function(ctypes.c_void_p(device), ctypes.byref(key), PRECISION,
                                              ctypes.byref(answer)))
        parameters, address = {}, answer.first
        while address:
            node = _Node.from_address(address)
            parameters[ctypes.string_at(node.key.text, node.key.length).decode()] = int(node.value)
            address = node.next
        return dict(sorted(parameters.items()))

    def sgemm(self, queue: int, transposed: tuple[bool, bool], sizes: tuple[int, int, int], scales: tuple[float, float],
              buffers: tuple[int, int, int], offsets: tuple[int, int, int] = (0, 0, 0)) -> None:
        """Enqueue C[m,n] = alpha A[m,k] B[k,n] + beta C for matrices stored by rows. Raises CLBlastError.

        `sizes` are (m, n, k), `scales` (alpha, beta); offsets count floats.
        """
        m, n, k = sizes
        widths = m if transposed[0] else k, k if transposed[1] else n, n
        a, b, c = ((ctypes.c_void_p(buffer), ctypes.c_size_t(offset), ctypes.c_size_t(width))
                   for buffer, offset, width in zip(buffers, offsets, widths, strict=True))
        turns = [TRANSPOSED if turned else NOT_TRANSPOSED for turned in transposed]
        handle = ctypes.c_void_p(queue)
        _check("CLBlastSgemm", self._library.CLBlastSgemm(
            ROW_MAJOR, *turns, *map(ctypes.c_size_t, sizes), ctypes.c_float(scales[0]), *a, *b,
            ctypes.c_float(scales[1]), *c, ctypes.byref(handle), None))

    def clear_cache(self) -> None:
        """Forget all programs that CLBlast has built in this process."""
        _check("CLBlastClearCache", self._library.CLBlastClearCache())


def _check(function: str, status: int) -> None:
    if status:
        raise CLBlastError(function, status)


@lru_cache(maxsize=1)
def load_clblast() -> CLBlast:
    """Load the library, once. Raises UnavailableError if it is not installed."""
    for name in (*NAMES, ctypes.util.find_library("clblast")):
        if name is not None:
            try:
                return CLBlast(ctypes.CDLL(name))
            except OSError:
                continue
    raise UnavailableError("CLBlast is not installed: apt install libclblast1 (Debian, Ubuntu), or put libclblast.so "
                           "where the loader finds it")
