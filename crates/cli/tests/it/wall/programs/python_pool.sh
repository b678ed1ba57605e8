cat > p.py <<'END'
from multiprocessing import Pool


def square(x):
    return x * x


if __name__ == "__main__":
    with Pool(2) as pool:
        assert pool.map(square, [1, 2, 3]) == [1, 4, 9]
END
python3 p.py
