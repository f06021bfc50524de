"""Formulas of steps, as terms with roles, and where papers print them."""

from dataclasses import dataclass

SIGNS = {  # of terms, in LaTeX
    **{"·": r"\cdot ", "⊙": r"\odot ", "Σ": r"\sum ", "∈": r"\in ", "…": r"\dots "},
    **{"√K": r"\sqrt{K}", "√½": r"\sqrt{1/2}", "{0, 1}": r"\{0, 1\}"},
    **{"α": r"\alpha ", "γ": r"\gamma ", "σ": r"\sigma "},
}


@dataclass(frozen=True)
class Term:
    """Part of a formula: its text, its role ("output", "input", "weight", "") and its LaTeX."""

    text: str
    role: str = ""
    tex: str = ""

    @property
    def latex(self) -> str:
        """The term in LaTeX; default: its text, with the commands of its signs."""
        latex = self.text
        for sign, command in SIGNS.items():
            latex = latex.replace(sign, command)
        return self.tex or latex


@dataclass(frozen=True)
class Formula:
    """Formula of a step, as a tuple of terms."""

    terms: tuple[Term, ...]

    @classmethod
    def of(cls, *terms: str | tuple[str, ...]) -> "Formula":
        """Formula from terms that are texts, or tuples of text, role and LaTeX."""
        return cls(tuple(Term(term) if isinstance(term, str) else Term(*term) for term in terms))

    @property
    def text(self) -> str:
        """The formula as plain text."""
        return " ".join(term.text for term in self.terms)

    @property
    def latex(self) -> str:
        """The formula in LaTeX."""
        return " ".join(term.latex for term in self.terms)


@dataclass(frozen=True)
class Reference:
    """Paper, and its equation or section, that a step comes from."""

    paper: str
    place: str = ""

    def __str__(self) -> str:
        return f"{self.paper}, {self.place}" if self.place else self.paper
