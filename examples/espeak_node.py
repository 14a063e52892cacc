"""A node that translates a few words and says them with espeak-ng.

Needs the program espeak-ng (Debian: apt-get install espeak-ng). Run it beside a scheduler:

    dragoman serve
    python espeak_node.py
"""

import io
import subprocess
import sys
import wave

from dragoman import Answer, Job, Node

WORDS = {
    ("en", "es"): {"good": "buenos", "morning": "días", "hello": "hola", "friend": "amigo"},
    ("es", "en"): {"buenos": "good", "días": "morning", "hola": "hello", "amigo": "friend"},
}


def translate(job: Job) -> Answer:
    """Translate word by word; a word that is not in the table stays as it is."""
    words = WORDS.get((job.src_lang, job.tgt_lang), {})
    heard = (job.text or "").lower().split()
    return Answer(text_translated=" ".join(words.get(word, word) for word in heard))


def speak(job: Job) -> Answer:
    """Say the text in the target language. A plain function runs in a thread, so it may block."""
    spoken = subprocess.run(
        ["espeak-ng", "-v", job.tgt_lang, "--stdout", "--", job.text or ""],
        capture_output=True,
        check=True,
    )
    # espeak-ng cannot know the length of what it streams; a WAV file must say it.
    with wave.open(io.BytesIO(spoken.stdout)) as streamed:
        rate, samples = streamed.getframerate(), streamed.readframes(streamed.getnframes())
    whole = io.BytesIO()
    with wave.open(whole, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples)
    return Answer(tts_audio=whole.getvalue(), tts_format="wav")


if __name__ == "__main__":
    Node(
        sys.argv[1] if len(sys.argv) > 1 else "ws://127.0.0.1:8080",
        services={"nmt": translate, "tts": speak},
        nmt=["en", "es"],
        tts=["en", "es"],
        slots=2,
    ).run()
