"""What the speakers of a demo say."""

from __future__ import annotations

from collections.abc import Mapping

SENTENCES: Mapping[str, tuple[str, ...]] = {
    "en": ("Where is the station?", "The meeting starts at nine.", "Could you repeat that?"),
    "es": ("¿Dónde está la estación?", "La reunión empieza a las nueve.", "Gracias por venir."),
    "zh": ("车站在哪里？", "会议九点开始。", "请再说一遍。"),
    "fr": ("Où est la gare ?", "La réunion commence à neuf heures.", "Merci beaucoup."),
    "de": ("Wo ist der Bahnhof?", "Das Treffen beginnt um neun.", "Vielen Dank."),
    "ja": ("駅はどこですか。", "会議は九時に始まります。", "ありがとうございます。"),
}
"""Sentences by language; every language of the fleet has some."""
