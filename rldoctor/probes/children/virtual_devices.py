"""Lets tensors of a CPU lie on devices that this machine lacks, and stops at the first operation that mixes them.

The numbers stay on the CPU, so code that looks at values runs as ever; only where a tensor lies is pretended. A device
belongs to the storage, so views and detached copies share it as on real hardware. Python code sees it through
``Tensor.device`` and the like, operators are watched below, in the dispatcher, where all of them pass. torch's own
``FakeTensorMode`` does the same only where torch is built with CUDA. Changes torch for the whole process."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

CPU = torch.device("cpu")
# What takes tensors of different devices on purpose.
ACROSS = ("copy_", "_copy_from", "_to_copy", "set_", "_pack_padded_sequence", "tensor_split")
# Its second result, how many sequences each step has, stays in host memory.
PACKED = "aten::_pack_padded_sequence"
# These take indices in host memory for a tensor on a device, not the other way round.
INDEXED = ("index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index", "_unsafe_index_put")
# Of the pretended devices; models ask for it before they choose a kernel.
CAPABILITY = (8, 0)
# What makes tensors, of torch itself and of a tensor.
CONSTRUCTORS = (
    *("arange", "as_tensor", "asarray", "empty", "empty_permuted", "empty_strided", "eye", "full", "linspace"),
    *("logspace", "ones", "rand", "randint", "randn", "randperm", "range", "scalar_tensor", "tensor", "tril_indices"),
    *("triu_indices", "zeros", "bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window"),
)
LIKE = ("empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "randint_like")
NEW = ("new_tensor", "new_empty", "new_empty_strided", "new_zeros", "new_ones", "new_full")
# What draws for a tensor that is given. In the dispatcher a generator does not know any more what it was made for.
DRAWN = ("bernoulli", "multinomial", "normal")
DRAWN_IN_PLACE = ("bernoulli_", "exponential_", "normal_", "random_", "uniform_")


HERE, TORCH = str(Path(__file__).parent), str(Path(torch.__file__).parent)


class MixedDevicesError(RuntimeError):
    """An operator got tensors of two devices: its name, device and shape of each, and where each came to its device
    (``file:line``, None where that was not seen)."""

    def __init__(
        self, operator: str, operands: list[tuple[str, list[int]]], origins: list[str | None] | None = None
    ) -> None:
        self.operator = operator
        self.operands = operands
        self.origins = origins or [None] * len(operands)
        names = ", ".join(dict.fromkeys(device for device, _ in operands))
        super().__init__(f"Expected all tensors to be on the same device, but {operator} got {names}")


class _Current:
    """What ``cuda`` without a number means."""

    index = 0


# torch's own functions that make tensors, with those that stand for them.
made_by: dict[Any, Callable[..., Any]] = {}


def device_of(tensor: torch.Tensor) -> torch.device:
    """Where a tensor lies: where it was put, else where it really is."""
    place: torch.device | None = getattr(_storage(tensor), "rldoctor_device", None)
    return place or _real_device.__get__(tensor)


def put(tensor: torch.Tensor, device: torch.device | str | None, origin: str | None = None) -> torch.Tensor:
    """Declares a tensor's storage to lie on a device, in place; None leaves it open until an operator decides.
    ``origin`` is the line that put it there."""
    storage = _storage(tensor)
    if storage is not None:
        storage.rldoctor_device = None if device is None else resolve(device)
        storage.rldoctor_open = device is None
        storage.rldoctor_origin = origin
    return tensor


def origin_of(tensor: torch.Tensor) -> str | None:
    """The line that put a tensor, or what it was computed from, on its device."""
    origin: str | None = getattr(_storage(tensor), "rldoctor_origin", None)
    return origin


def _caller() -> str | None:
    """The innermost line that is neither torch's nor this module's."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((HERE, TORCH, "<")):
            return f"{file}:{frame.f_lineno}"
        frame = frame.f_back
    return None


def moved(tensor: torch.Tensor, device: torch.device | str) -> torch.Tensor:
    """The tensor itself where it lies there already, else a copy that does."""
    if device_of(tensor) == resolve(device):
        return tensor
    return put(_Real.clone(tensor), device, _caller())


def resolve(device: Any) -> torch.device:
    """A device as torch takes it (a name, a number, a ``torch.device``), with its number."""
    found = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
    return torch.device(found.type, _Current.index) if found.type == "cuda" and found.index is None else found


@contextmanager
def current(index: int) -> Iterator[None]:
    """Makes a device the current one, as ``torch.cuda.device`` does."""
    before, _Current.index = _Current.index, index
    try:
        yield
    finally:
        _Current.index = before


class Watch(TorchDispatchMode):  # type: ignore[misc]
    """Lets every operator's result lie where its operands do, and raises :class:`MixedDevicesError` where they differ.

    ``count`` is how many operators were watched."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self.count += 1
        operands = _tensors((args, kwargs))
        device = _common(func, args, operands)
        known = {id(_storage(operand)) for operand in operands}
        result = _computed(func, args, kwargs)
        made = [tensor for tensor in _tensors(result) if id(_storage(tensor)) not in known]
        if func._schema.name == PACKED:
            put(made.pop(), CPU)
        origin = next((origin_of(operand) for operand in operands if device_of(operand) == device), None)
        # What operators make for themselves in C++ is meant for their operands' device, which torch takes for the CPU.
        for tensor in made + [operand for operand in operands if device is not None and _is_open(operand)]:
            put(tensor, device, origin)
        return result


def install() -> None:
    """Teaches torch's own functions about devices that are pretended. Call once, before any tensor is put."""
    for name in (*CONSTRUCTORS, *LIKE):
        if hasattr(torch, name):
            setattr(torch, name, _constructor(getattr(torch, name), name in LIKE))
    tensor: Any = torch.Tensor
    for name in NEW:
        setattr(tensor, name, _constructor(getattr(tensor, name), True))
    for owner, names in ((torch, DRAWN), (tensor, (*DRAWN, *DRAWN_IN_PLACE))):
        for name in names:
            if hasattr(owner, name):
                setattr(owner, name, _drawing(getattr(owner, name)))
    tensor.device = property(device_of)
    tensor.is_cuda = property(lambda self: device_of(self).type == "cuda")
    tensor.is_cpu = property(lambda self: device_of(self).type == "cpu")
    tensor.get_device = lambda self: -1 if device_of(self).index is None else device_of(self).index
    tensor.to = _to
    tensor.cuda = lambda self, device=None, *_, **__: moved(self, "cuda" if device is None else device)
    tensor.cpu = lambda self, *_, **__: moved(self, CPU)
    tensor.type_as = lambda self, other: _to(self, other)
    tensor.numpy = _numpy
    tensor.__array__ = _array
    default: Any = importlib.import_module("torch.utils._device").DeviceContext
    default.__torch_function__ = _on_default_device
    cuda: Any = torch.cuda
    cuda.current_device = lambda: _Current.index
    cuda.get_device_capability = lambda device=None: CAPABILITY


class _Real:
    """torch's own methods, as they were."""

    to = torch.Tensor.to
    clone = torch.Tensor.clone
    numpy = torch.Tensor.numpy
    array = torch.Tensor.__array__


_real_device: Any = torch._C.TensorBase.device


def _tensors(nested: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(nested) if isinstance(leaf, torch.Tensor)]


def _storage(tensor: torch.Tensor) -> Any:
    """The storage of a tensor, None where it has none of its own (a sparse tensor)."""
    try:
        return tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):
        return None


def _computed(func: Any, args: Any, kwargs: Any) -> Any:
    """The operator's result on the CPU, also where only a device's kernel takes these types."""
    if func._schema.name == "aten::histc" and not args[0].is_floating_point():
        return func(args[0].double(), *args[1:], **kwargs).to(args[0].dtype)
    return func(*args, **kwargs)


def _is_open(tensor: torch.Tensor) -> bool:
    return bool(getattr(_storage(tensor), "rldoctor_open", False))


def _common(func: Any, args: Any, given: list[torch.Tensor]) -> torch.device | None:
    """The device on which an operator runs, by PyTorch's own rules (a single number in host memory goes with any), or
    None where nothing decides it."""
    settled = [operand for operand in given if not _is_open(operand)]
    if not settled:
        return None
    namespace, _, name = func._schema.name.partition("::")
    if namespace != "aten" or name in ACROSS:
        return device_of(settled[0])
    indices = {id(index) for index in _tensors(args[1])} if name in INDEXED else set()
    on_host = [t for t in settled if device_of(t) == CPU and (t.dim() == 0 or id(t) in indices)]
    deciding = [t for t in settled if not any(t is other for other in on_host)] or settled[:1]
    places = {device_of(t) for t in deciding}
    if len(places) > 1:
        operands = [(str(device_of(t)), list(t.shape)) for t in settled]
        raise MixedDevicesError(str(func), operands, [origin_of(t) for t in settled])
    return places.pop()


def _drawing(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def drawn(*args: Any, **kwargs: Any) -> Any:
        for given in _tensors(args)[:1]:
            _require_generator(function.__name__, device_of(given), kwargs)
        return function(*args, **kwargs)

    return drawn


def _require_generator(operator: str, device: torch.device, kwargs: Any) -> None:
    """Random numbers for a device come from a generator of its kind."""
    generator = kwargs.get("generator")
    if generator is not None and generator.device.type != device.type:
        raise MixedDevicesError(operator, [(str(device), []), (f"a generator of {generator.device}", [])])


def _constructor(function: Callable[..., Any], follows: bool) -> Callable[..., Any]:
    """A function that makes a tensor, with the pretended device in place of the real one. ``follows``: without a
    device it takes that of its argument."""

    @wraps(function)
    def made(*args: Any, **kwargs: Any) -> Any:
        device = kwargs.get("device")
        if device is not None and resolve(device).type == "meta":
            return function(*args, **kwargs)
        if device is not None:
            _require_generator(function.__name__, resolve(device), kwargs)
        result = function(*args, **(kwargs if device is None else {**kwargs, "device": CPU}))
        if any(_storage(result) is _storage(argument) for argument in _tensors(args)):
            # as_tensor and the like hand their argument on where nothing is to be done.
            return result if device is None else moved(result, device)
        if device is None:
            # A default device (``with torch.device``) was there first.
            placed = follows or getattr(_storage(result), "rldoctor_device", None) is not None
            return result if placed else put(result, _real_device.__get__(result), _caller())
        return put(result, device, _caller())

    made_by[function] = made
    return made


def _to(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    """``Tensor.to`` in all its forms: a device, a dtype, both, or another tensor to follow."""
    device = kwargs.pop("device", None)
    rest: list[Any] = []
    for argument in args:
        if isinstance(argument, torch.Tensor):
            device, rest = device_of(argument), [argument.dtype]
        elif isinstance(argument, (str, torch.device)) or (
            isinstance(argument, int) and not isinstance(argument, bool)
        ):
            device = argument
        else:
            rest.append(argument)
    if isinstance(kwargs.get("other"), torch.Tensor):
        other = kwargs.pop("other")
        device, rest = device_of(other), [other.dtype]
    if device is not None and resolve(device).type == "meta":
        return _Real.to(self, device, *rest, **kwargs)
    if rest and (rest[0] is None or isinstance(rest[0], bool)):
        # After a device come dtype, non_blocking and copy by position; without a dtype it would be missed.
        rest = [self.dtype, *rest[rest[0] is None :]]
    result = _Real.to(self, *rest, **kwargs) if rest or kwargs else self
    return result if device is None else moved(result, device)


def _numpy(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    _refuse_on_device(self)
    return _Real.numpy(self, *args, **kwargs)


def _array(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    _refuse_on_device(self)
    return _Real.array(self, *args, **kwargs)


def _refuse_on_device(tensor: torch.Tensor) -> None:
    """numpy reads host memory only."""
    if device_of(tensor).type == "cuda":
        device, shape = str(device_of(tensor)), list(tensor.shape)
        raise MixedDevicesError("numpy", [(device, shape), ("cpu", shape)], [origin_of(tensor), None])


def _on_default_device(self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """``with torch.device("cuda:1")`` and ``torch.set_default_device``: what makes a tensor makes it there."""
    kwargs = kwargs or {}
    made = made_by.get(func)
    if made is None or kwargs.get("device") is not None:
        return func(*args, **kwargs)
    return made(*args, **{**kwargs, "device": self.device})
