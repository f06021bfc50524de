"""Fixed expressions, by the tense they go with; raised numbers say which words are linked."""

from regard.data.toy_language.lexicon.entries import expressions

OFTEN = expressions("often|oft\nalways|immer\nsometimes|manchmal\nnever|nie", inner=True)
ALREADY = expressions("already|schon\nnever|nie", inner=True)
SOON = expressions("soon|bald", inner=True)
HABITS = expressions("""
    every¹ day²              | jeden¹ Tag²
    every¹ morning²          | jeden¹ Morgen²
    in¹ the¹ evening²        | am¹ Abend²
    on Sundays               | sonntags
""")
NOW = expressions("""
    now                      | jetzt
    today                    | heute
    at¹ the¹ moment²         | im¹ Moment²
""")
PAST = expressions("""
    yesterday                | gestern
    yesterday¹ evening²      | gestern¹ Abend²
    last¹ week²              | letzte¹ Woche²
    two¹ days² ago³          | vor³ zwei¹ Tagen²
    three¹ weeks² ago³       | vor³ drei¹ Wochen²
    this¹ morning²           | heute¹ Morgen²
    on¹ Monday²              | am¹ Montag²
""")
FUTURE = expressions("""
    tomorrow                 | morgen
    tonight                  | heute Abend
    next¹ week²              | nächste¹ Woche²
    on¹ Friday²              | am¹ Freitag²
""")
MEANS = expressions("""
    by¹ train²               | mit¹ dem¹ Zug²
    by¹ bus²                 | mit¹ dem¹ Bus²
    by¹ car²                 | mit¹ dem¹ Auto²
""")
ASKING = expressions("why | warum\nwhere | wo\nwhen | wann")
