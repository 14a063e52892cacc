"""What a node offers: its services, their languages, its slots."""

from __future__ import annotations

import platform
from collections.abc import Collection, Iterable, Sequence

import msgspec

from dragoman.errors import InvalidCapabilitySchema, InvalidMessage
from dragoman.live.protocol import (
    MAX_SLOTS,
    SCHEMA_VERSION,
    Device,
    Hardware,
    Languages,
    NodeRegister,
    RunningJob,
    Service,
    ServiceStatus,
    ServiceType,
    check_register,
    known_features,
)
from dragoman.sdk.node.identity import Identity
from dragoman.sdk.parameters import languages_fault, own_words, shortened
from dragoman.version import __version__

_PARAMETERS = {
    "max_concurrent_jobs": "slots",
    "services": "models",
    "languages.asr_langs": "asr",
    "languages.semantic_langs": "semantic",
    "languages.nmt_langs": "nmt",
    "languages.tts_langs": "tts",
}
"""What a node's owner calls the fields of a registration, where that is something else."""


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """All that a registration says besides who the node is and what it runs."""

    services: tuple[Service, ...]
    languages: Languages
    slots: int
    hardware: Hardware
    features: tuple[str, ...] = ()
    accept_public_jobs: bool = True
    version: str = __version__

    def register(self, identity: Identity, running: tuple[RunningJob, ...] = ()) -> NodeRegister:
        """The node's first message."""
        return NodeRegister(
            version=self.version,
            schema_version=SCHEMA_VERSION,
            platform=platform.system().lower(),
            hardware=self.hardware,
            services=self.services,
            languages=self.languages,
            node_id=identity.node_id,
            registration_token=identity.registration_token,
            features=self.features,
            max_concurrent_jobs=self.slots,
            accept_public_jobs=self.accept_public_jobs,
            running=running,
        )


def checked(offer: Offer, identity: Identity) -> Offer:
    """The offer, unless a scheduler would refuse it: better to hear that before connecting."""
    if not offer.services:
        raise InvalidCapabilitySchema(
            'the node offers nothing; name the languages of at least one service, as in nmt=["en"]'
        )
    slots: object = offer.slots
    if not isinstance(slots, int) or not 1 <= slots <= MAX_SLOTS:
        raise InvalidCapabilitySchema(
            f"`slots` is {slots!r}; give how many jobs the node does at once, 1 to {MAX_SLOTS}"
        )
    register = offer.register(identity)
    with own_words(_PARAMETERS):
        try:
            check_register(register)
        except TypeError as error:  # such as a number of numpy's, which has no form on the wire
            raise InvalidCapabilitySchema(_unsendable(register) or str(error)) from None
    return offer


def features_of(given: Sequence[str]) -> tuple[str, ...]:
    """The features that a node offers, once each is known to be one."""
    if isinstance(given, str):
        raise InvalidCapabilitySchema(
            f'`features` is the text "{given}"; give a list, as in features=["{given}"]'
        )
    try:
        known_features(given)
    except InvalidMessage as error:
        raise InvalidCapabilitySchema(error.message, details=error.details) from None
    return tuple(given)


def _unsendable(register: NodeRegister) -> str | None:
    """Which parameter holds a value that has no form on the wire."""
    for field, value in msgspec.structs.asdict(register).items():
        try:
            msgspec.to_builtins(value)
        except TypeError:
            return f"`{_PARAMETERS.get(field, field)}` is {shortened(value)}; give a plain value"
    return None


def languages_of(
    asr: Sequence[str], semantic: Sequence[str], nmt: Sequence[str], tts: Sequence[str]
) -> Languages:
    """The languages of each service, once each is known to be one."""
    given = {"asr": asr, "semantic": semantic, "nmt": nmt, "tts": tts}
    for name, languages in given.items():
        fault = languages_fault(name, languages)
        if fault is not None:
            raise InvalidCapabilitySchema(fault)
    return Languages(tuple(asr), tuple(semantic), tuple(nmt), tuple(tts))


def services_for(languages: Languages, functions: Collection[str] | None) -> tuple[Service, ...]:
    """One running service for each type that has a function, or else for each with languages."""
    spoken = {
        ServiceType.ASR: languages.asr_langs,
        ServiceType.SEMANTIC: languages.semantic_langs,
        ServiceType.NMT: languages.nmt_langs,
        ServiceType.TTS: languages.tts_langs,
    }
    with_languages = [kind for kind, langs in spoken.items() if langs]
    if functions is None:
        return tuple(_running(with_languages))
    for kind in with_languages:
        if kind.value not in functions:
            raise InvalidCapabilitySchema(
                f"there are {kind} languages but no {kind} function; add one to `services`,"
                f" or leave `{kind}` out"
            )
    for kind, langs in spoken.items():
        if kind.value in functions and not langs:
            raise InvalidCapabilitySchema(
                f'there is a function for {kind} but it has no languages; add {kind}=["en", ...]'
            )
    return tuple(_running(kind for kind in ServiceType if kind.value in functions))


def _running(kinds: Iterable[ServiceType]) -> Iterable[Service]:
    for kind in kinds:
        yield Service(
            service_id=kind.value, type=kind, device=Device.CPU, status=ServiceStatus.RUNNING
        )
