"""People, animals and things: English | German nominative, genitive, plural | pronoun."""

from regard.data.toy_language.lexicon.entries import nouns

ADULTS = nouns(
    "adults",
    """
    man/men        | der Mann, des Mannes, die Männer
    woman/women    | die Frau, der Frau, die Frauen
    teacher        | der Lehrer, des Lehrers, die Lehrer
    doctor         | die Ärztin, der Ärztin, die Ärztinnen
    student        | der Student, des Studenten, die Studenten
    farmer         | der Bauer, des Bauern, die Bauern
    bus driver     | der Busfahrer, des Busfahrers, die Busfahrer
    police officer | die Polizistin, der Polizistin, die Polizistinnen
    """,
)
CHILDREN = nouns(
    "children",
    """
    child/children | das Kind, des Kindes, die Kinder
    boy            | der Junge, des Jungen, die Jungen
    girl           | das Mädchen, des Mädchens, die Mädchen | she
    """,
)
FAMILY = nouns(
    "family",
    """
    brother        | der Bruder, des Bruders, die Brüder
    sister         | die Schwester, der Schwester, die Schwestern
    mother         | die Mutter, der Mutter
    father         | der Vater, des Vaters
    grandmother    | die Großmutter, der Großmutter
    uncle          | der Onkel, des Onkels
    friend         | der Freund, des Freundes, die Freunde
    neighbour      | der Nachbar, des Nachbarn, die Nachbarn
    """,
)
ANIMALS = nouns(
    "animals",
    """
    dog            | der Hund, des Hundes, die Hunde
    cat            | die Katze, der Katze, die Katzen
    horse          | das Pferd, des Pferdes, die Pferde
    bird           | der Vogel, des Vogels, die Vögel
    mouse/mice     | die Maus, der Maus, die Mäuse
    """,
)
FOOD = nouns(
    "food",
    """
    apple          | der Apfel, des Apfels, die Äpfel
    egg            | das Ei, des Eies, die Eier
    birthday cake  | der Geburtstagskuchen, des Geburtstagskuchens, die Geburtstagskuchen
    """,
)
STAPLES = nouns(
    "mass",
    """
    bread          | das Brot, des Brotes
    cheese         | der Käse, des Käses
    ice cream      | das Eis, des Eises
    """,
)
DRINKS = nouns(
    "mass",
    """
    water          | das Wasser, des Wassers
    milk           | die Milch, der Milch
    coffee         | der Kaffee, des Kaffees
    orange juice   | der Orangensaft, des Orangensaftes
    """,
)
READING = nouns(
    "reading",
    """
    book           | das Buch, des Buches, die Bücher
    letter         | der Brief, des Briefes, die Briefe
    newspaper      | die Zeitung, der Zeitung, die Zeitungen
    story          | die Geschichte, der Geschichte, die Geschichten
    play           | das Theaterstück, des Theaterstückes, die Theaterstücke
    """,
)
THINGS = nouns(
    "things",
    """
    bag            | die Tasche, der Tasche, die Taschen
    coffee cup     | die Kaffeetasse, der Kaffeetasse, die Kaffeetassen
    house key      | der Hausschlüssel, des Hausschlüssels, die Hausschlüssel
    umbrella       | der Regenschirm, des Regenschirmes, die Regenschirme
    picture        | das Bild, des Bildes, die Bilder
    ball           | der Ball, des Balles, die Bälle
    flower         | die Blume, der Blume, die Blumen
    gift           | das Geschenk, des Geschenkes, die Geschenke
    coat           | der Mantel, des Mantels, die Mäntel
    """,
)
FURNITURE = nouns(
    "things",
    """
    chair          | der Stuhl, des Stuhles, die Stühle
    kitchen table  | der Küchentisch, des Küchentisches, die Küchentische
    """,
)
VEHICLES = nouns(
    "things",
    """
    car            | das Auto, des Autos, die Autos
    bicycle        | das Fahrrad, des Fahrrades, die Fahrräder
    """,
)
OPENINGS = nouns(
    "fixtures",
    """
    door           | die Tür, der Tür, die Türen
    window         | das Fenster, des Fensters, die Fenster
    """,
)
MACHINES = nouns(
    "fixtures",
    """
    lamp           | die Lampe, der Lampe, die Lampen
    computer       | der Computer, des Computers, die Computer
    """,
)
TRANSPORT = nouns(
    "fixtures",
    """
    bus            | der Bus, des Busses, die Busse
    train          | der Zug, des Zuges, die Züge
    """,
)
PEOPLE = ADULTS | CHILDREN | FAMILY
BELONGINGS = READING | THINGS | FURNITURE | VEHICLES
NAMES = {"Anna": "she", "Maria": "she", "Peter": "he", "Paul": "he"}
NOUNS = PEOPLE | ANIMALS | FOOD | STAPLES | DRINKS | BELONGINGS | OPENINGS | MACHINES | TRANSPORT

_GROUPS = {
    "children": CHILDREN,
    "family": FAMILY,
    "people": PEOPLE,
    "grown": ADULTS | FAMILY,
    "animals": ANIMALS,
    "beings": PEOPLE | ANIMALS,
    "players": CHILDREN | ANIMALS,
    "food": FOOD,
    "meals": FOOD | STAPLES,
    "drinks": DRINKS,
    "groceries": FOOD | STAPLES | DRINKS,
    "reading": READING,
    "things": THINGS,
    "vehicles": VEHICLES,
    "openings": OPENINGS,
    "machines": MACHINES,
    "transport": TRANSPORT,
    "goods": FOOD | STAPLES | DRINKS | BELONGINGS | MACHINES,
}
POOLS = {name: tuple(group.values()) for name, group in _GROUPS.items()}
POOLS |= {name: (noun,) for name, noun in NOUNS.items()}
"""What verbs choose their subjects and objects from: groups by name, and each noun by its own."""
