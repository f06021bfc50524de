"""Verbs: English | German | whom or what | where | who, if not people."""

from regard.data.toy_language.lexicon.entries import Verb, verbs
from regard.data.toy_language.lexicon.nouns import POOLS


def _table(text: str) -> dict[str, Verb]:
    return verbs(text, POOLS)


ACTS = _table("""
    sleep slept slept | schlafen, schläft, hat geschlafen      |  | home nature        | beings
    work              | arbeiten, arbeitet, hat gearbeitet     |  | work dining        | grown
    sing sang sung    | singen, singt, hat gesungen            |  | home nature
    dance             | tanzen, tanzt, hat getanzt             |  | home nature
    swim swam swum    | schwimmen, schwimmt, ist geschwommen   |  | water              | beings
    play              | spielen, spielt, hat gespielt          |  | home nature        | players
    sit sat sat       | sitzen, sitzt, hat gesessen            |  | shore shore nature
    watch +television | fernsehen, sieht fern, hat ferngesehen |  | home
""")
CHANGES = _table("""
    laugh                    | lachen, lacht, hat gelacht
    cry                      | weinen, weint, hat geweint
    wake woke woken +up      | aufwachen, wacht auf, ist aufgewacht           |  |        | beings
    get got got +up          | aufstehen, steht auf, ist aufgestanden
    fall fell fallen +asleep | einschlafen, schläft ein, ist eingeschlafen    |  |        | beings
    arrive                   | ankommen, kommt an, ist angekommen             |  | travel
    come came come +back     | zurückkommen, kommt zurück, ist zurückgekommen |  |        | beings
""")
PASTIMES = _table("""
    buy bought bought   | kaufen, kauft, hat gekauft                  | goods   | shops town
    eat ate eaten       | essen, isst, hat gegessen                   | meals   | home dining
    drink drank drunk   | trinken, trinkt, hat getrunken              | drinks  | home dining
    read read read      | lesen, liest, hat gelesen                   | reading | nature books
    write wrote written | schreiben, schreibt, hat geschrieben        | letter, book, story, play
    paint               | malen, malt, hat gemalt                     | picture, flower, animals
    visit               | besuchen, besucht, hat besucht              | grown
    meet met met        | treffen, trifft, hat getroffen              | people  | town dining
    invite              | einladen, lädt ein, hat eingeladen          | people
    call                | anrufen, ruft an, hat angerufen             | grown
    look +at            | ansehen, sieht an, hat angesehen            | picture, animals
    help                | helfen, hilft, hat geholfen, Dat            | people  | home nature
    listen +to          | zuhören, hört zu, hat zugehört, Dat         | people
    talk (about)        | sprechen, spricht, hat gesprochen, über Akk | people, animals, reading
    play (with)         | spielen, spielt, hat gespielt, mit Dat | animals, ball | nature | players
""")
DEEDS = _table("""
    clean      | putzen, putzt, hat geputzt                   | openings, vehicles
    repair     | reparieren, repariert, hat repariert         | machines, vehicles |        | grown
    look (for) | suchen, sucht, hat gesucht                   | beings, things
    open       | aufmachen, macht auf, hat aufgemacht         | openings, letter, gift
    close      | zumachen, macht zu, hat zugemacht            | openings, book, bag
    turn +on   | einschalten, schaltet ein, hat eingeschaltet | machines
    turn +off  | ausschalten, schaltet aus, hat ausgeschaltet | machines
    bring brought brought +along | mitbringen, bringt mit, hat mitgebracht | groceries, flower
    thank      | danken, dankt, hat gedankt, Dat              | people
    follow     | folgen, folgt, ist gefolgt, Dat              | beings             | nature
    wait (for) | warten, wartet, hat gewartet, auf Akk        | people, transport  | travel
    take took taken +care (of) | sich kümmern, kümmert, hat gekümmert, um Akk | animals, people
""")
THOUGHTS = _table("""
    think thought thought (of) | denken, denkt, hat gedacht, an Akk       | people
    dream (of)                 | träumen, träumt, hat geträumt, von Dat   | animals, people, car
    look +forward (to)         | sich freuen, freut, hat gefreut, auf Akk | letter, gift
""")
EVENTS = _table("""
    see saw seen            | sehen, sieht, hat gesehen          | beings, things | nature
    hear heard heard        | hören, hört, hat gehört            | beings         | nature
    find found found        | finden, findet, hat gefunden       | things         | nature
    lose lost lost          | verlieren, verliert, hat verloren  | things         | nature
    forget forgot forgotten | vergessen, vergisst, hat vergessen | things, letter
    remember                | sich erinnern, erinnert, hat erinnert, an Akk | beings, reading
""")
STATES = _table("""
    know knew known | kennen, kennt, kannte            | people, reading
    like            | mögen, mag, mochte               | people, animals, goods
    love            | lieben, liebt, hat geliebt       | family, animals
    need            | brauchen, braucht, hat gebraucht | goods
    have had had    | haben, hat, hatte                | animals, things, vehicles, machines
    be was been +afraid (of) | (keine) Angst haben, hat, hatte, vor Dat | beings |  | beings
""")
NEEDS = _table("""
    be was been +hungry  | (keinen) Hunger haben, hat, hatte |  |  | beings
    be was been +thirsty | (keinen) Durst haben, hat, hatte  |  |  | beings
""")
GIVING = _table("""
    give gave given       | geben, gibt, hat gegeben         | things, reading, food
    show showed shown     | zeigen, zeigt, hat gezeigt       | things, reading, vehicles, animals
    send sent sent        | schicken, schickt, hat geschickt | letter, book, gift, picture
    bring brought brought | bringen, bringt, hat gebracht    | things, reading, groceries
""")
MOVING = _table("""
    go went gone               | gehen, geht, ist gegangen
    run ran run                | laufen, läuft, ist gelaufen |  |  | beings
    travel travelled travelled | fahren, fährt, ist gefahren
""")
SAYING = _table("""
    say said said         | sagen, sagt, hat gesagt
    think thought thought | denken, denkt, hat gedacht
    believe               | glauben, glaubt, hat geglaubt
    hope                  | hoffen, hofft, hat gehofft
    know knew known       | wissen, weiß, wusste
""")
TRYING = _table("""
    try                     | versuchen, versucht, hat versucht
    forget forgot forgotten | vergessen, vergisst, hat vergessen
""")
WEATHER = _table("""
    rain | regnen, regnet, hat geregnet
    snow | schneien, schneit, hat geschneit
""")
LIVING = _table("live | wohnen, wohnt, hat gewohnt |  | town")
(BE,) = _table("be was been | sein, ist, war").values()
(BELONG,) = _table("belong (to) | gehören, gehört, hat gehört, Dat").values()

VERBS = ACTS | CHANGES | PASTIMES | DEEDS | THOUGHTS | EVENTS | STATES | NEEDS | GIVING | MOVING
_ERRANDS = "visit, meet, buy, help, look for, thank, invite, take care of, wait for, look at"
_TASKS = "open, close, repair, call, help, write, turn on, turn off, clean, invite, buy, thank"
_RELATED = "buy, read, write, paint, visit, meet, invite, help, look for, wait for, talk about"
_RELATED += ", see, hear, find, lose, forget, remember, know, like, love, need, be afraid of"
ERRANDS, TASKS, RELATED = (
    {name: VERBS[name] for name in names.split(", ")} for names in (_ERRANDS, _TASKS, _RELATED)
)
"""What people go somewhere for, what they try or forget to do, what tells one thing from others."""
