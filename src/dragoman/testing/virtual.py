"""An event loop on virtual time: a day of sleeping passes in seconds.

Code written for asyncio runs on it unchanged: tasks, timeouts, queues, task groups. When nothing
is ready, the loop does not wait, it moves its time to the next timer. There are no sockets and no
threads, so a run depends on its seed alone and can be repeated.

What the seed decides is the order of timers that are due at the same instant, which asyncio
leaves open; frames of the in-memory network travel on such timers. `call_soon` promises first
come, first served, and keeps it.
"""

from __future__ import annotations

import asyncio
import functools
import heapq
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextvars import Context
from random import Random
from typing import Any, NoReturn, ParamSpec, TypeVar, TypeVarTuple, overload
from weakref import WeakSet

P = ParamSpec("P")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_MIN_TIMERS_TO_TIDY = 100
_TASKS_NAMED = 10
_DAY_SECONDS = 86_400.0


class Deadlock(RuntimeError):
    """Raised when every task waits for something that can no longer happen."""


class VirtualLoop(asyncio.BaseEventLoop):
    """An asyncio loop on virtual time; `seed` decides what asyncio leaves open.

    With `inline_threads`, what `asyncio.to_thread` and `run_in_executor` would run in a thread
    runs on the loop instead, in no virtual time. Without it both are refused.
    """

    # Kept by the base class, in every Python since 3.4; its type stubs leave them out.
    _ready: Any
    _stopping: bool
    _thread_id: int | None

    def __init__(self, seed: int, *, inline_threads: bool = False) -> None:
        super().__init__()
        self.seed = seed
        self._inline_threads = inline_threads
        self._random = Random(seed)
        self._now = 0.0
        # (when, tie, number, handle): the tie is drawn, the number only keeps handles uncompared.
        self._timers: list[tuple[float, float, int, asyncio.TimerHandle | _Deferred]] = []
        self._timers_made = 0
        self._timers_cancelled = 0
        self._tasks: WeakSet[asyncio.Task[Any]] = WeakSet()
        self._tasks_made = 0
        self._unhandled: list[BaseException] = []
        self.set_exception_handler(_remember_unhandled)

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._now

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        # As `call_at`, without the detour: it is what simulations call most.
        if self.is_closed():
            raise RuntimeError("The virtual loop is closed; timers need a running one.")
        when = self._now + delay
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._timers_made += 1
        heapq.heappush(self._timers, (when, self._random.random(), self._timers_made, handle))
        return handle

    def defer(self, delay: float, callback: Callable[[*Ts], object], *args: *Ts) -> None:
        """Call back after so many seconds, as `call_later`, for what is never cancelled.

        It costs half as much, and in a simulation nearly every timer is one of these.
        """
        self._timers_made += 1
        heapq.heappush(
            self._timers,
            (
                self._now + delay,
                self._random.random(),
                self._timers_made,
                _Deferred(self, callback, args),
            ),
        )

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        if self.is_closed():
            raise RuntimeError("The virtual loop is closed; timers need a running one.")
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._timers_made += 1
        heapq.heappush(self._timers, (when, self._random.random(), self._timers_made, handle))
        return handle

    def create_task(  # type: ignore[override]  # the options differ between Python versions
        self, coro: Coroutine[Any, Any, T], **options: Any
    ) -> asyncio.Task[T]:
        self._tasks_made += 1
        task: asyncio.Task[T] = _NumberedTask(self._tasks_made, coro, loop=self, **options)
        self._tasks.add(task)
        return task

    def call_soon_threadsafe(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        if self._thread_id not in (None, threading.get_ident()):
            try:
                self._refuse_threads()
            except RuntimeError as refusal:
                # Code in a thread may keep it to itself, and the run would only seem to hang.
                self._unhandled.append(refusal)
                raise
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(
        self, executor: object, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        if not self._inline_threads:
            self._refuse_threads()
        future: asyncio.Future[T] = self.create_future()
        self.call_soon(_run_inline, future, func, args)
        return future

    def failures(self) -> list[BaseException]:
        """What went wrong in tasks and callbacks without anyone having looked at it."""
        for task in sorted(self._tasks, key=hash):
            if task.done() and not task.cancelled() and task._log_traceback:
                error = task.exception()
                if error is not None:
                    self._unhandled.append(error)
        return list(self._unhandled)

    def _run_once(self) -> None:
        """Turn after turn, until the loop is stopped: what is ready now runs; with nothing ready,
        time moves to the next timer."""
        ready, timers, pop = self._ready, self._timers, heapq.heappop
        while True:
            while timers and timers[0][3]._cancelled:
                pop(timers)
                self._timers_cancelled -= 1
            now = self._now
            is_idle = not ready and not self._stopping
            if is_idle:
                if not timers:
                    self._report_deadlock()
                if timers[0][0] > now:
                    now = self._now = timers[0][0]
                handle = pop(timers)[3]
                if not timers or timers[0][0] > now:
                    # Nearly always a timer is alone in its moment.
                    handle._run()
                    if self._stopping:
                        return
                    continue
                ready.append(handle)
            while timers and timers[0][0] <= now:
                handle = pop(timers)[3]
                if handle._cancelled:
                    self._timers_cancelled -= 1
                else:
                    ready.append(handle)
            for _ in range(len(ready)):
                handle = ready.popleft()
                if not handle._cancelled:
                    handle._run()
            if self._stopping:
                return

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Called by every timer that is cancelled; most timeouts are, so they must not pile up."""
        self._timers_cancelled += 1
        timers = self._timers
        if len(timers) > _MIN_TIMERS_TO_TIDY and self._timers_cancelled > len(timers) // 2:
            # The handle itself is marked as cancelled only after this call.
            timers[:] = [t for t in timers if not t[3]._cancelled and t[3] is not handle]
            heapq.heapify(timers)
            self._timers_cancelled = 0

    def _report_deadlock(self) -> NoReturn:
        waiting = sorted(asyncio.all_tasks(self), key=hash)
        named = ", ".join(_describe(task) for task in waiting[:_TASKS_NAMED])
        more = f" and {len(waiting) - _TASKS_NAMED} more" if len(waiting) > _TASKS_NAMED else ""
        raise Deadlock(
            f"At {self._now:.3f} s of virtual time nothing is ready and no timer is set, but"
            f" {len(waiting)} task(s) still wait: {named}{more}. (seed {self.seed})"
        )

    def _refuse_threads(self) -> NoReturn:
        raise RuntimeError(
            "The virtual loop has no threads: their timing would not follow from the seed."
            " Call the function directly, hand in a part that does not need a thread, as"
            " Node(threads=False), or let the loop run such functions itself with"
            " inline_threads=True."
        )

    def _process_events(self, event_list: list[Any]) -> None:
        """There are no sockets, hence no events."""


class _Deferred:
    """What is to be called back, and cannot be cancelled."""

    __slots__ = ("_args", "_callback", "_loop")

    _cancelled = False

    def __init__(
        self, loop: VirtualLoop, callback: Callable[..., object], args: tuple[Any, ...]
    ) -> None:
        self._loop = loop
        self._callback = callback
        self._args = args

    def _run(self) -> None:
        try:
            self._callback(*self._args)
        except Exception as error:
            words = f"A deferred call of {self._callback!r} failed"
            self._loop.call_exception_handler({"message": words, "exception": error})


class _NumberedTask(asyncio.Task[T]):
    """A task that is known by its number.

    asyncio keeps tasks in sets, and walks through them, to cancel a group for example. By its
    default hash, an address in memory, the order of such a walk would differ from run to run.
    """

    def __init__(self, number: int, *args: Any, **options: Any) -> None:
        self._number = number
        super().__init__(*args, **options)

    def __hash__(self) -> int:
        return self._number


class VirtualClock:
    """Tells the time of a virtual loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, start_ms: int = 1_700_000_000_000) -> None:
        self._loop = loop
        self._start_ms = start_ms

    def now_ms(self) -> int:
        # A microsecond's thousandth keeps 4.35 s, which is stored as a little less, at 4350 ms.
        return self._start_ms + int(self._loop.time() * 1000 + 1e-6)

    def monotonic(self) -> float:
        return self._loop.time()


def run_virtual(
    main: Callable[[], Awaitable[T]] | Coroutine[Any, Any, T],
    *,
    seed: int = 0,
    inline_threads: bool = False,
    within_seconds: float | None = None,
) -> T:
    """Run `main` on a virtual loop of its own, and return what it returns.

    A task or callback that failed unnoticed fails the run, so that no error hides in the
    background. A run that is not over `within_seconds` of virtual time ends with TimeoutError.
    """
    loop = VirtualLoop(seed, inline_threads=inline_threads)
    try:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            result: T = runner.run(_awaited(main, within_seconds))
    except BaseException as error:
        for failure in loop.failures():
            error.add_note(f"Also failed, in the background: {failure!r}")
        raise
    failures = loop.failures()
    if failures:
        raise BaseExceptionGroup(f"unnoticed failures (seed {seed})", failures)
    return result


@overload
def virtual(test: Callable[P, Coroutine[Any, Any, T]], /) -> Callable[P, T]: ...


@overload
def virtual(
    *,
    seed: int = 0,
    seeds: Iterable[int] | None = None,
    inline_threads: bool = False,
    within_seconds: float | None = _DAY_SECONDS,
) -> Callable[[Callable[P, Coroutine[Any, Any, T]]], Callable[P, T]]: ...


def virtual(
    test: Callable[P, Coroutine[Any, Any, T]] | None = None,
    /,
    *,
    seed: int = 0,
    seeds: Iterable[int] | None = None,
    inline_threads: bool = False,
    within_seconds: float | None = _DAY_SECONDS,
) -> Any:
    """Make a plain function of an async test: ``@virtual``, or ``@virtual(seed=7)``.

    A call runs the test on a virtual loop of its own; with `seeds`, once for each of them. The
    error of a run that fails names its seed. The options are those of `run_virtual`.
    """
    if test is None:
        return functools.partial(
            virtual,
            seed=seed,
            seeds=seeds if seeds is None else tuple(seeds),
            inline_threads=inline_threads,
            within_seconds=within_seconds,
        )
    asynchronous = test
    every_seed = (seed,) if seeds is None else tuple(seeds)
    if not every_seed:
        raise ValueError("`seeds` is empty, so the test would never run; give at least one seed")

    @functools.wraps(asynchronous)
    def synchronous(*args: P.args, **options: P.kwargs) -> T:
        for one in every_seed:
            try:
                result = run_virtual(
                    asynchronous(*args, **options),
                    seed=one,
                    inline_threads=inline_threads,
                    within_seconds=within_seconds,
                )
            except BaseException as error:
                error.add_note(f"On the virtual loop with seed {one}; the same seed repeats it.")
                raise
        return result

    return synchronous


async def _awaited(main: Any, within_seconds: float | None) -> Any:
    limit = asyncio.timeout(within_seconds)
    try:
        async with limit:
            return await (main if asyncio.iscoroutine(main) else main())
    except TimeoutError:
        if limit.expired():
            raise TimeoutError(
                f"The run was not over after {within_seconds:g} s of virtual time; what it waits"
                " for does not come, or within_seconds is too short."
            ) from None
        raise


def _run_inline(
    future: asyncio.Future[T], function: Callable[..., T], args: tuple[Any, ...]
) -> None:
    if future.done():
        return  # cancelled before its turn
    try:
        result = function(*args)
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)


def _remember_unhandled(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    error = context.get("exception")
    if loop.is_closed() or not isinstance(loop, VirtualLoop):
        loop.default_exception_handler(context)
    elif isinstance(error, BaseException):
        loop._unhandled.append(error)
    else:
        loop._unhandled.append(RuntimeError(context.get("message", "unknown failure")))


def _describe(task: asyncio.Task[Any]) -> str:
    """A task by its name and by the calls it waits in, the outermost first."""
    calls = []
    waiting_in: Any = task.get_coro()
    while (frame := getattr(waiting_in, "cr_frame", None)) is not None:
        calls.append(f"{frame.f_code.co_qualname}:{frame.f_lineno}")
        waiting_in = waiting_in.cr_await
    return f"{task.get_name()} ({' > '.join(calls)})"
