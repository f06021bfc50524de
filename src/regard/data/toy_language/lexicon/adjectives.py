"""Adjectives: English | German | the kinds of nouns they go with."""

from regard.data.toy_language.lexicon.entries import adjectives

_ADJECTIVES = adjectives("""
    old         | alt          | adults animals things fixtures town culture dining
    young       | jung         | adults animals
    big         | groß         | animals things fixtures nature town culture dining
    small       | klein        | children animals things fixtures nature town food
    new         | neu          | things reading fixtures culture work dining
    beautiful   | schön        | things nature town
    tired       | müde / müd   | adults children animals
    happy       | glücklich    | adults children
    sad         | traurig      | adults children
    sick        | krank        | adults children animals
    red         | rot          | things
    black       | schwarz      | animals things
    expensive   | teuer / teur | things dining
    fresh       | frisch       | food mass
    cold        | kalt         | water
    long        | lang         | reading
    interesting | interessant  | reading culture
""")
ADJECTIVES = {name: adjective for name, (adjective, _) in _ADJECTIVES.items()}
QUALITIES = {
    kind: tuple(adjective for adjective, kinds in _ADJECTIVES.values() if kind in kinds)
    for _, kinds in _ADJECTIVES.values()
    for kind in kinds
}
MOODS = tuple(ADJECTIVES[name] for name in ("tired", "sick", "happy", "sad"))
HARDSHIPS = MOODS[:2]
COLOURS = tuple(ADJECTIVES[name] for name in ("red", "black"))
EXCESSIVE = tuple(
    ADJECTIVES[name] for name in ("tired", "expensive", "old", "big", "small", "long")
)
