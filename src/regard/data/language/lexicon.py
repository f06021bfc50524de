"""The words of the built-in language: tables to be read, each line an entry of both languages."""

from regard.data.language.entries import (
    Noun,
    adjectives,
    expressions,
    nouns,
    rows,
    verbs,
)

# --- nouns: English | German nominative, genitive, plural | pronoun -------------------------------

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
    duck           | die Ente, der Ente, die Enten
    mouse/mice     | die Maus, der Maus, die Mäuse
    """,
)
FOOD = nouns(
    "food",
    """
    apple          | der Apfel, des Apfels, die Äpfel
    banana         | die Banane, der Banane, die Bananen
    egg            | das Ei, des Eies, die Eier
    potato         | die Kartoffel, der Kartoffel, die Kartoffeln
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
    cup            | die Tasse, der Tasse, die Tassen
    coffee cup     | die Kaffeetasse, der Kaffeetasse, die Kaffeetassen
    house key      | der Hausschlüssel, des Hausschlüssels, die Hausschlüssel
    umbrella       | der Regenschirm, des Regenschirmes, die Regenschirme
    picture        | das Bild, des Bildes, die Bilder
    ball           | der Ball, des Balles, die Bälle
    flower         | die Blume, der Blume, die Blumen
    gift           | das Geschenk, des Geschenkes, die Geschenke
    hat            | der Hut, des Hutes, die Hüte
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
NAMES = {"Anna": "she", "Maria": "she", "Julia": "she", "Peter": "he", "Paul": "he", "Martin": "he"}

# --- places: group | English | German | where = wo, to where = wohin ------------------------------

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

# --- adjectives: English | German | kinds of nouns ------------------------------------------------

_ADJECTIVES = adjectives("""
    old         | alt          | adults animals things fixtures town culture dining
    young       | jung         | adults animals
    big         | groß         | animals things fixtures nature town culture dining
    small       | klein        | children animals things fixtures nature town food
    new         | neu          | things reading fixtures culture work dining
    beautiful   | schön        | things nature town
    friendly    | freundlich   | adults children
    clever      | klug         | adults children animals
    tired       | müde / müd   | adults children animals
    happy       | glücklich    | adults children
    sad         | traurig      | adults children
    sick        | krank        | adults children animals
    red         | rot          | things
    blue        | blau         | things
    black       | schwarz      | animals things
    white       | weiß         | animals things
    expensive   | teuer / teur | things dining
    fresh       | frisch       | food mass
    cold        | kalt         | mass water
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
ANIMAL_MOODS = MOODS[:2]
EXCESSIVE = tuple(ADJECTIVES[name] for name in ("tired", "expensive", "old", "big", "small", "long"))

# --- verbs: English | German | whom or what | where | who, if not people --------------------------

_GROUPS = {
    "adults": ADULTS,
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
    "furniture": FURNITURE,
    "vehicles": VEHICLES,
    "openings": OPENINGS,
    "machines": MACHINES,
    "transport": TRANSPORT,
    "goods": FOOD | STAPLES | DRINKS | BELONGINGS | MACHINES,
}
NOUNS = PEOPLE | ANIMALS | FOOD | STAPLES | DRINKS | BELONGINGS | OPENINGS | MACHINES | TRANSPORT
_POOLS = {name: tuple(group.values()) for name, group in _GROUPS.items()}
_POOLS |= {name: (noun,) for name, noun in NOUNS.items()}

ACTS = verbs(
    """
    sleep slept slept       | schlafen, schläft, hat geschlafen     |  | home nature | beings
    work                    | arbeiten, arbeitet, hat gearbeitet    |  | work dining | grown
    sing sang sung          | singen, singt, hat gesungen           |  | home nature
    dance                   | tanzen, tanzt, hat getanzt            |  | home nature
    swim swam swum          | schwimmen, schwimmt, ist geschwommen  |  | water       | beings
    play                    | spielen, spielt, hat gespielt         |  | home nature | players
    sit sat sat             | sitzen, sitzt, hat gesessen           |  | shore shore nature | beings
    watch +television       | fernsehen, sieht fern, hat ferngesehen | | home
    """,
    _POOLS,
)
CHANGES = verbs(
    """
    laugh                   | lachen, lacht, hat gelacht
    cry                     | weinen, weint, hat geweint
    wake woke woken +up     | aufwachen, wacht auf, ist aufgewacht           |  |        | beings
    get got got +up         | aufstehen, steht auf, ist aufgestanden
    fall fell fallen +asleep | einschlafen, schläft ein, ist eingeschlafen   |  |        | beings
    arrive                  | ankommen, kommt an, ist angekommen             |  | travel
    come came come +back    | zurückkommen, kommt zurück, ist zurückgekommen |  |        | beings
    """,
    _POOLS,
)
PASTIMES = verbs(
    """
    buy bought bought       | kaufen, kauft, hat gekauft                     | goods | shops town
    sell sold sold          | verkaufen, verkauft, hat verkauft              | goods | shops | grown
    eat ate eaten           | essen, isst, hat gegessen                      | meals | home dining
    drink drank drunk       | trinken, trinkt, hat getrunken                 | drinks | home dining
    read read read          | lesen, liest, hat gelesen                      | reading | nature books
    write wrote written     | schreiben, schreibt, hat geschrieben           | letter, book, story, play
    paint                   | malen, malt, hat gemalt                        | picture, flower, animals
    visit                   | besuchen, besucht, hat besucht                 | grown
    meet met met            | treffen, trifft, hat getroffen                 | people | town dining
    invite                  | einladen, lädt ein, hat eingeladen             | people
    call                    | anrufen, ruft an, hat angerufen                | grown
    look +at                | ansehen, sieht an, hat angesehen               | picture, animals | culture
    help                    | helfen, hilft, hat geholfen, Dat               | people | home nature
    listen +to              | zuhören, hört zu, hat zugehört, Dat            | people
    talk (about)            | sprechen, spricht, hat gesprochen, über Akk    | people, animals, reading
    play (with)             | spielen, spielt, hat gespielt, mit Dat | animals, ball | nature | children
    """,
    _POOLS,
)
DEEDS = verbs(
    """
    clean                   | putzen, putzt, hat geputzt                     | openings, vehicles, chair
    repair                  | reparieren, repariert, hat repariert           | machines, vehicles | | grown
    carry                   | tragen, trägt, hat getragen                    | bag, umbrella, furniture
    look (for)              | suchen, sucht, hat gesucht                     | beings, things
    open                    | aufmachen, macht auf, hat aufgemacht           | openings, letter, gift, bag
    close                   | zumachen, macht zu, hat zugemacht              | openings, book, bag
    turn +on                | einschalten, schaltet ein, hat eingeschaltet   | machines
    turn +off               | ausschalten, schaltet aus, hat ausgeschaltet   | machines
    bring brought brought +along | mitbringen, bringt mit, hat mitgebracht   | groceries, flower, ball
    thank                   | danken, dankt, hat gedankt, Dat                | people
    answer                  | antworten, antwortet, hat geantwortet, Dat     | people
    follow                  | folgen, folgt, ist gefolgt, Dat                | beings | nature | beings
    wait (for)              | warten, wartet, hat gewartet, auf Akk          | people, transport | travel
    think thought thought (of) | denken, denkt, hat gedacht, an Akk          | people
    dream (of)              | träumen, träumt, hat geträumt, von Dat         | animals, car, people
    look +forward (to)      | sich freuen, freut, hat gefreut, auf Akk       | letter, gift, birthday cake
    take took taken +care (of) | sich kümmern, kümmert, hat gekümmert, um Akk | animals, people
    """,
    _POOLS,
)
EVENTS = verbs(
    """
    see saw seen            | sehen, sieht, hat gesehen              | beings, things, play | nature town
    hear heard heard        | hören, hört, hat gehört                | people, animals | nature | beings
    find found found        | finden, findet, hat gefunden           | things, animals, children | nature
    lose lost lost          | verlieren, verliert, hat verloren      | things | nature
    forget forgot forgotten | vergessen, vergisst, hat vergessen     | things, letter
    remember                | sich erinnern, erinnert, hat erinnert, an Akk | people, animals, reading
    """,
    _POOLS,
)
STATES = verbs(
    """
    know knew known         | kennen, kennt, kannte                  | people, reading
    like                    | mögen, mag, mochte                     | people, animals, goods
    love                    | lieben, liebt, hat geliebt             | family, animals
    need                    | brauchen, braucht, hat gebraucht       | goods
    have had had            | haben, hat, hatte                      | animals, things, vehicles, machines
    be +afraid (of)         | (keine) Angst haben, hat, hatte, vor Dat | animals, people |  | beings
    """,
    _POOLS,
)
NEEDS = verbs(
    """
    be +hungry              | (keinen) Hunger haben, hat, hatte      |  |  | beings
    be +thirsty             | (keinen) Durst haben, hat, hatte       |  |  | beings
    """,
    _POOLS,
)
GIVING = verbs(
    """
    give gave given         | geben, gibt, hat gegeben               | things, reading, food
    show showed shown       | zeigen, zeigt, hat gezeigt             | things, reading, vehicles, animals
    send sent sent          | schicken, schickt, hat geschickt       | letter, book, gift, picture
    bring brought brought   | bringen, bringt, hat gebracht          | things, reading, groceries
    lend lent lent          | leihen, leiht, hat geliehen            | book, umbrella, vehicles, bag
    """,
    _POOLS,
)
MOVING = verbs(
    """
    go went gone            | gehen, geht, ist gegangen
    run ran run             | laufen, läuft, ist gelaufen            |  |  | beings
    travel travelled travelled | fahren, fährt, ist gefahren
    """,
    _POOLS,
)
SAYING = verbs(
    """
    say said said           | sagen, sagt, hat gesagt
    think thought thought   | denken, denkt, hat gedacht
    believe                 | glauben, glaubt, hat geglaubt
    hope                    | hoffen, hofft, hat gehofft
    know knew known         | wissen, weiß, wusste
    """,
    _POOLS,
)
TRYING = verbs(
    """
    try                     | versuchen, versucht, hat versucht
    forget forgot forgotten | vergessen, vergisst, hat vergessen
    """,
    _POOLS,
)
WEATHER = verbs("rain | regnen, regnet, hat geregnet\nsnow | schneien, schneit, hat geschneit", _POOLS)
LIVING = verbs("live | wohnen, wohnt, hat gewohnt | | town", _POOLS)
(BE,) = verbs("be was been | sein, ist, war", _POOLS).values()
(BELONG,) = verbs("belong (to) | gehören, gehört, hat gehört, Dat", _POOLS).values()

VERBS = ACTS | CHANGES | PASTIMES | DEEDS | EVENTS | STATES | NEEDS | GIVING | MOVING | LIVING
_ERRANDS = "visit, meet, buy, sell, help, look for, thank, invite, take care of, wait for, look at"
_TASKS = "open, close, repair, call, help, write, turn on, turn off, clean, invite, buy, answer"
_RELATED = "buy, read, write, paint, visit, meet, invite, help, look for, wait for, talk about"
_RELATED += ", see, hear, find, lose, forget, remember, know, like, love, need, be afraid of"
ERRANDS, TASKS, RELATED = (
    tuple(VERBS[name] for name in names.split(", ")) for names in (_ERRANDS, _TASKS, _RELATED)
)

# --- expressions, by the tense they go with; raised numbers say which words are linked ------------

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
