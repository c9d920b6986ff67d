"""HTTP requests of which each could be read in more than one way, or nearly: rows of
(rule, name, bytes). The bytes are one request; the test sends a probe behind it."""

HEAD = b"GET /a HTTP/1.1\r\nHost: h\r\n"
CHUNKED = b"PUT /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"


def put(header, body=b"abc"):
    """A PUT with these header lines, each with its end."""
    return b"PUT /a HTTP/1.1\r\nHost: h\r\n" + header + b"\r\n" + body


def of(rule, requests):
    """Rows whose bytes are their name."""
    return [(rule, f"{rule} {request!r}", request) for request in requests]


def plain():
    """What every reader of HTTP takes."""
    yield from (method + b" /a HTTP/1.1\r\nHost: h\r\n\r\n"
                for method in (b"GET", b"OPTIONS", b"DELETE", b"POST", b"PUT"))
    yield from (HEAD + line + b"\r\n\r\n"
                for line in (b"X: a", b"X:a", b"X:\ta\t", b"X:", b"X: ", b"x-1: \xe4\xff", b"X: a, b; c=\"d\"",
                             b"X: a\r\nX: b", b"User-Agent: a (b) c/1", b"Accept: */*", b"Range: bytes=1-",
                             b"Cookie: a=b; c=d", b"X: " + b"a" * 900, b"Connection: keep-alive",
                             b"Authorization: Bearer x", b"Content-Length: 0"))
    yield from (b"GET /a HTTP/1.1\r\n" + host + b"\r\n\r\n"
                for host in (b"Host: h:1", b"HOST: h", b"host:h", b"Host: h.example", b"Host: [::1]",
                             b"Host: [::1]:8443", b"Host: 127.0.0.1:8443", b"Host:  h  "))
    yield from (b"GET " + target + b" HTTP/1.1\r\nHost: h\r\n\r\n"
                for target in (b"/", b"/a?b", b"/a//b", b"/a?b=c&d=/e", b"/a?b=%20", b"/a..b", b"/a-b_c~d"))
    yield from (put(b"Content-Length: 3\r\n"), put(b"content-length:3\r\n"), put(b"Content-Length:  3 \r\n"),
                put(b"Content-Length: 03\r\n"), b"\r\n" + HEAD + b"\r\n", b"\r\n\r\n" + HEAD + b"\r\n")


def transfer_encoding():
    values = (b"chunked", b"Chunked", b"CHUNKED", b"gzip, chunked", b"gzip,chunked", b"chunked, gzip",
              b"chunked, chunked", b"identity", b"identity, chunked", b"chunked, identity", b"", b"\tchunked",
              b"chunked ", b"xchunked", b"chunkedx", b"chunked;a=b", b"\"chunked\"", b"chunked,", b",chunked",
              b"gzip", b"x", b"chun ked", b"compress", b"0")
    for value in values:
        yield put(b"Transfer-Encoding: " + value + b"\r\n", b"3\r\nabc\r\n0\r\n\r\n")
        yield put(b"Content-Length: 3\r\nTransfer-Encoding: " + value + b"\r\n")
    for names in ((b"Transfer-Encoding", b"Transfer-Encoding"), (b"transfer-encoding", b"TRANSFER-ENCODING")):
        for first, second in ((b"chunked", b"chunked"), (b"gzip", b"chunked"), (b"chunked", b"identity")):
            yield put(names[0] + b": " + first + b"\r\n" + names[1] + b": " + second + b"\r\n",
                      b"3\r\nabc\r\n0\r\n\r\n")
    for name in (b"Transfer-Encoding ", b" Transfer-Encoding", b"Transfer-Encoding\t", b"Transfer-Encoding\0",
                 b"\tTransfer-Encoding"):
        yield put(name + b": chunked\r\n", b"0\r\n\r\n")
    yield b"PUT /a HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    yield HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"


def chunks():
    for body in (b"0\r\n\r\n", b"3\r\nabc\r\n0\r\n\r\n", b"3;x=y\r\nabc\r\n0\r\n\r\n", b"3\r\nabc\r\n0\r\nX: y\r\n\r\n",
                 b"3\r\nabcXX0\r\n\r\n", b"3\r\nabc\r0\r\n\r\n", b"3\r\nabc\n0\r\n\r\n", b"3\r\nabc0\r\n\r\n",
                 b"3\rXabc\r\n0\r\n\r\n", b"3\nabc\r\n0\r\n\r\n", b"3 \r\nabc\r\n0\r\n\r\n", b" 3\r\nabc\r\n0\r\n\r\n",
                 b"0x3\r\nabc\r\n0\r\n\r\n", b"+3\r\nabc\r\n0\r\n\r\n", b"-3\r\nabc\r\n0\r\n\r\n", b"3_\r\nabc\r\n0\r\n\r\n",
                 b"\r\nabc\r\n0\r\n\r\n", b"g\r\nabc\r\n0\r\n\r\n", b"fffffffffffffffff\r\nabc",
                 b"10000000000000003\r\nabc\r\n0\r\n\r\n", b"00000003\r\nabc\r\n00\r\n\r\n", b"3;\nabc\r\n0\r\n\r\n",
                 b"3\r\nabc\r\n0\r\n\n", b"3\r\nabc\r\n0\n\r\n", b"3\r\nabcd\r\n0\r\n\r\n"):
        yield CHUNKED + body


def line_ends():
    for end in (b"\n", b"\r", b"\r\r\n", b"\n\r", b"\r\n\r", b" \r \n", b"\r\0\n"):
        yield b"GET /a HTTP/1.1" + end + b"Host: h\r\n\r\n"
        yield b"GET /a HTTP/1.1\r\nHost: h" + end + b"X: y\r\n\r\n"
        yield HEAD + b"X: y" + end + b"\r\n"
        yield HEAD + b"X: y\r\n" + end
        yield end + HEAD + b"\r\n"
    yield HEAD + b"\r\n\rX"
    yield HEAD + b"\rX\r\n"
    yield b"GET /a HTTP/1.1\nHost: h\n\n"


def folds():
    for fold in (b"\r\n b", b"\r\n\tb", b"\r\n ", b"\r\n\t \t b", b"\r\n \r\n b"):
        yield HEAD + b"X: a" + fold + b"\r\n\r\n"
    yield put(b"Content-Length:\r\n 3\r\n")
    yield put(b"Transfer-Encoding:\r\n chunked\r\n", b"0\r\n\r\n")
    yield b"GET /a HTTP/1.1\r\n Host: h\r\n\r\n"
    yield b"GET /a HTTP/1.1\r\n\tX: a\r\nHost: h\r\n\r\n"
    yield b"GET /a HTTP/1.1\r\nHost:\r\n h\r\n\r\n"


def hosts():
    for lines in (b"", b"Host:\r\n", b"Host: \r\n", b"Host: h\r\nHost: h\r\n", b"Host: h\r\nhost: i\r\n",
                  b"Host: h\r\nHost:\r\n", b"Host: a b\r\n", b"Host: a/b\r\n", b"Host: a\\b\r\n", b"Host: a,b\r\n",
                  b"Host: a@b\r\n", b"Host: a#b\r\n", b"Host: a?b\r\n", b"Host: a..b\r\n", b"Host: \"a\"\r\n",
                  b"Host: a\tb\r\n", b"Host: a\0b\r\n", b"Host: a\x7f\r\n", b"Host: \xe4\r\n", b"Host : h\r\n",
                  b"Host h\r\n", b"X: y\r\n", b"Host: h\r\nX: y\r\nHost: i\r\n", b"Host: .\r\n", b"Host: ..\r\n"):
        yield b"GET /a HTTP/1.1\r\n" + lines + b"\r\n"
    yield b"GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
    yield b"GET /a HTTP/1.0\r\nConnection: keep-alive\r\nHost: a\r\nHost: b\r\n\r\n"


def content_lengths():
    for value in (b"", b" ", b"+3", b"-3", b"3 3", b"3,3", b"3, 3", b"0x3", b"3.0", b"3;", b"3a", b"a3", b"a", b"-1",
                  b"-0", b"99999999999999999999", b"18446744073709551619", b"9223372036854775808", b"3\x0b",
                  b"\x0b3", b"3\0", b"\xb3", b"\"3\"", b"3\t3", b"1e0", b"\xef\xbc\x93"):
        yield put(b"Content-Length: " + value + b"\r\n")
    for first, second in ((b"3", b"3"), (b"3", b"4"), (b"0", b"3"), (b"3", b"0"), (b"3", b""), (b"3", b"x")):
        yield put(b"Content-Length: " + first + b"\r\nContent-Length: " + second + b"\r\n")
        yield put(b"Content-Length: " + first + b"\r\nX: y\r\nCONTENT-length: " + second + b"\r\n")
    for name in (b"Content-Length ", b"Content-Length\t", b"Content-Length\0", b" Content-Length"):
        yield put(name + b": 3\r\n")


def controls():
    for byte in [*range(32), 127]:
        if byte in (9, 10, 13):
            continue
        yield HEAD + b"X: a" + bytes([byte]) + b"b\r\n\r\n"
        yield HEAD + b"X" + bytes([byte]) + b"Y: a\r\n\r\n"
        yield b"GET /a" + bytes([byte]) + b"b HTTP/1.1\r\nHost: h\r\n\r\n"


def names():
    for line in (b": a", b"X Y: a", b"X\t: a", b"X : a", b"X", b"X;", b"(X): a", b"X@: a", b"X\xe4: a", b"\"X\": a",
                 b"X/: a", b"X{: a", b"X=: a", b"[X]: a", b"X?: a", b"X,: a"):
        yield HEAD + line + b"\r\n\r\n"


def request_lines():
    for line in (b"GET  /a HTTP/1.1", b"GET /a  HTTP/1.1", b"GET /a HTTP/1.1 ", b" GET /a HTTP/1.1", b"GET\t/a HTTP/1.1",
                 b"GET /a\tHTTP/1.1", b"GET /a", b"GET", b"GET /a HTTP/1", b"GET /a HTTP/1.", b"GET /a HTTP/.1",
                 b"GET /a http/1.1", b"GET /a HTTP/1.1x", b"GET /a HTTP/11.1", b"GET /a HTTP/1.10", b"GET /a HTTP/2.0",
                 b"GET /a HTTP/0.9", b"GET /a HTTP/3.0", b"GET /a HTTP/ 1.1", b"GET /a HTTP /1.1", b"GET /a HTTPS/1.1",
                 b"GET /a FTP/1.1", b"GET a HTTP/1.1", b"GET HTTP/1.1", b"GET * HTTP/1.1", b"GET ? HTTP/1.1",
                 b"GET http:///a HTTP/1.1", b"GET http://h/a HTTP/1.1", b"GET /a%20b HTTP/1.1", b"GET http:/a HTTP/1.1", b"GET http://h HTTP/1.1", b"GET :/a HTTP/1.1",
                 b"GET http://a b/ HTTP/1.1", b"GET http://h:x/a HTTP/1.1", b"GET //h/a HTTP/1.1", b"GET /a b HTTP/1.1",
                 b"GET /../a HTTP/1.1", b"GET /%2e%2e/a HTTP/1.1", b"GET /%zz HTTP/1.1", b"GET /%00 HTTP/1.1",
                 b"GET /a#b HTTP/1.1", b"GET /\xe4 HTTP/1.1", b"get /a HTTP/1.1", b"Get /a HTTP/1.1", b"G@T /a HTTP/1.1",
                 b"G(T /a HTTP/1.1", b"G\xe4T /a HTTP/1.1", b"FOO /a HTTP/1.1", b"CONNECT h:1 HTTP/1.1",
                 b"CONNECT /a HTTP/1.1", b"TRACE /a HTTP/1.1", b"PRI * HTTP/2.0", b"OPTIONS * HTTP/1.1"):
        yield line + b"\r\nHost: h\r\n\r\n"


ROWS = [row for rule, requests in (("plain", plain()), ("transfer-encoding", transfer_encoding()),
                                   ("transfer-encoding", chunks()), ("line-end", line_ends()), ("fold", folds()),
                                   ("host", hosts()), ("content-length", content_lengths()),
                                   ("control", controls()), ("name", names()), ("request-line", request_lines()))
        for row in of(rule, requests)]
