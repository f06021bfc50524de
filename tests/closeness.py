"""How close two ways to compute the same in single precision come, whatever the machine.

AMX, AVX-512, AVX2 and NEON, BLAS libraries and numbers of threads add in other orders, and their
``exp`` and ``tanh`` differ in the last bit. A rounding changes a number by up to 2⁻²⁴ = 6e-8 of
itself, and a sum of a hundred numbers near 1 in another order differs by some 1e-6. What a mistake
changes, such as another eps, mask or scale, is the third or the fourth digit.
"""

VALUES = {"rtol": 1e-5, "atol": 1e-5}  # states, logits, scores and losses of tiny models
LARGE = {"rtol": 1e-4, "atol": 1e-4}  # logits and sums far beyond 1
GRADIENTS = {"rtol": 1e-4, "atol": 1e-4}  # sums over all tokens, of terms that cancel
PROBABILITIES = {"rel": 1e-4, "abs": 1e-7}  # exp of logits near 10; for ``pytest.approx``
SCALARS = {"rel": 1e-5, "abs": 1e-5}  # VALUES for ``pytest.approx``
