"""Questions of which the model with all languages must know the answer."""

# the same question and its answer in languages of many scripts, beside an answer to another question
ANSWERS = {
    "wo liegt der ersatzschlüssel?": ("Der Schlüssel hängt hinter der Kellertür.", "Der Zug fährt um acht."),
    "备用钥匙在哪里？": ("钥匙挂在地下室门后面。", "火车八点出发。"),
    "أين المفتاح الاحتياطي؟": ("المفتاح معلق خلف باب القبو.", "القطار يغادر في الثامنة."),
    "where is the spare key?": ("Der Schlüssel hängt hinter der Kellertür.", "The meeting is on Monday."),
}
