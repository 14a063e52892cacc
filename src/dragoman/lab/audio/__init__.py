"""Audio that dataset rows refer to: found, known by its checksum, kept, given to targets."""

from dragoman.lab.audio.archive import SCHEMA_NAME, Archive, opened_archive
from dragoman.lab.audio.facts import (
    AUDIO,
    AudioFile,
    BadAudio,
    as_stored,
    audio_columns,
    file_of,
    with_audio,
)
from dragoman.lab.audio.folder import AudioChanged, AudioFolder, audio_folder_of
from dragoman.lab.audio.intake import AudioIntake, Files, FolderFiles, TakenFile

__all__ = [
    "AUDIO",
    "SCHEMA_NAME",
    "Archive",
    "AudioChanged",
    "AudioFile",
    "AudioFolder",
    "AudioIntake",
    "BadAudio",
    "Files",
    "FolderFiles",
    "TakenFile",
    "as_stored",
    "audio_columns",
    "audio_folder_of",
    "file_of",
    "opened_archive",
    "with_audio",
]
