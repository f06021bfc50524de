"""Places, by group: English | German nominative, genitive | where = wo, to where = wohin."""

from regard.data.toy_language.lexicon.entries import Noun, expressions, nouns, rows

_PLACES = """
    home    | kitchen       | die Küche, der Küche                  | in = in, into = in
    home    | living room   | das Wohnzimmer, des Wohnzimmers       | in = in, into = in
    nature  | garden        | der Garten, des Gartens               | in = in, into = in
    nature  | park          | der Park, des Parks                   | in = in, to = in
    nature  | forest        | der Wald, des Waldes                  | in = in, into = in
    nature  | beach         | der Strand, des Strandes              | on = an, to = an
    water   | lake          | der See, des Sees                     | in = in, to = zu
    water   | river         | der Fluss, des Flusses                | in = in, to = zu
    shore   | bank          | das Ufer, des Ufers                   | on = an, to = an
    town    | city          | die Stadt, der Stadt                  | in = in, to = in
    town    | village       | das Dorf, des Dorfes                  | in = in, to = in
    shops   | market        | der Markt, des Marktes                | at = auf, to = zu
    travel  | train station | der Bahnhof, des Bahnhofs             | at = an, to = zu
    books   | library       | die Bibliothek, der Bibliothek        | in = in, to = in
    culture | museum        | das Museum, des Museums               | in = in, to = in
    work    | school        | die Schule, der Schule                | at = in, to = in
    work    | hospital      | das Krankenhaus, des Krankenhauses    | in = in, to = in
    work    | bank          | die Bank, der Bank                    | at = in, to = zu
    dining  | restaurant    | das Restaurant, des Restaurants       | in = in, to = in
"""
Spot = tuple[str, str, Noun]
"""English preposition, German preposition, noun."""


def _spots(column: int) -> dict[str, tuple[Spot, ...]]:
    groups: dict[str, tuple[Spot, ...]] = {}
    for group, english, german, prepositions in rows(_PLACES, 4):
        noun = nouns(group, f"{english} | {german}")[english]
        before, after = prepositions.split(", ")[column].split(" = ")
        groups[group] = (*groups.get(group, ()), (before, after, noun))
    return groups


WHERE, TO_WHERE = _spots(0), _spots(1)
AT_HOME, HOMEWARD = expressions("at¹ home² | zu¹ Hause²\nhome | nach Hause").values()
