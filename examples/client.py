"""A client that says two sentences, prints the translations and keeps what it hears as WAV files.

Needs a scheduler with a node for the pair, such as espeak_node.py:

    python client.py
"""

import sys
from pathlib import Path

from dragoman import Missing, talk
from dragoman.sdk import Pipeline

URL = sys.argv[1] if len(sys.argv) > 1 else "ws://127.0.0.1:8080"
SENTENCES = ("Good morning", "Hello friend")
SPOKEN = Pipeline(use_tts=True)

with talk(URL, src_lang="en", tgt_lang="es", pipeline=SPOKEN) as session:
    for sentence in SENTENCES:
        session.say(sentence)
    session.close()  # waits until every sentence has its result
    failed = False
    for result in session.results():
        if isinstance(result, Missing):
            print(f"{SENTENCES[result.utterance_index]} -> no result: {result.reason}")
            failed = True
            continue
        print(f"{SENTENCES[result.utterance_index]} -> {result.text_translated}")
        if result.tts_audio:
            file = Path(f"sentence-{result.utterance_index}.wav")
            file.write_bytes(result.tts_audio)
            print(f"  heard {len(result.tts_audio)} bytes, kept in {file}")

sys.exit(1 if failed else 0)
