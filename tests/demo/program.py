import os, platform, socket

def primes():
    found = []
    n = 2
    while True:
        if all(n % p for p in found if p * p <= n):
            found.append(n)
            yield n
        n += 1

ordered = primes()
print("the 1000th prime is", [next(ordered) for _ in range(1000)][-1])
print("Python", platform.python_version(), "as user", os.getuid(), "on", socket.gethostname())
print("networks:", ", ".join(name for _, name in socket.if_nameindex()))
try:
    open("/usr/mine", "w")
except OSError as error:
    print("writing to /usr:", error.strerror)
