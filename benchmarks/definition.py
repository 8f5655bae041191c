"""The rule as the paper writes it: three nested loops, floats, ties by equality. What everything is measured with."""


def triple_loop(tokens: list[list[float]], alpha: float, layers: int) -> list[list[list[int]]]:
    n, d = len(tokens), len(tokens[0])
    b = alpha / (1 + alpha)
    z = [list(row) for row in tokens]
    history = []
    for k in range(layers + 1):
        sets = []
        for i in range(n):
            best, chosen = -float("inf"), []
            for j in range(n):
                product = 0.0
                for r in range(d):
                    product += z[i][r] * z[j][r]
                if product > best:
                    best, chosen = product, [j]
                elif product == best:
                    chosen.append(j)
            sets.append(chosen)
        history.append(sets)
        if k < layers:
            means = [[sum(z[j][r] for j in chosen) / len(chosen) for r in range(d)] for chosen in sets]
            z = [[z[i][r] + b * (means[i][r] - z[i][r]) for r in range(d)] for i in range(n)]
    return history
