"""The dashboard in headless Chromium, over 10,000 clients and 5,000 rounds: what it shows, what its buttons
do, by mouse and keyboard; no violations that axe-core finds, nothing on the console; how long it takes.
Screenshots go into TERN_SHOTS."""
import json
import os
import pathlib
import sys
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
from harness import BIN, HELPERS, Aggregator, Workspace, check, main, run  # noqa: E402
from large_federation import fill  # noqa: E402
from webdriver import Browser  # noqa: E402

CLIENTS = 10000
ROUNDS = 5000
SHOTS = pathlib.Path(os.environ["TERN_SHOTS"])
AXE = pathlib.Path(os.environ["TERN_AXE"]).read_text()
SLOWEST_MS = 1000  # of the processor, for a view: what else the machine does has no part in it
NODES = 4000  # of a view, whatever there is to show
VIEWS = ("overview", "rounds", "clients", "client/5", "codes", "system")
LOOKS = {"light": (1280, 900, "light"), "dark": (1280, 900, "dark"),
         "phone": (390, 844, "light"), "phone-dark": (390, 844, "dark")}
TAB, ENTER, ESCAPE, RIGHT, LEFT = "\ue004", "\ue007", "\ue00c", "\ue014", "\ue012"


def has_text(selector, text):
    return f"return document.querySelector({json.dumps(selector)})?.textContent.includes({json.dumps(text)})"


class Dashboard:
    def __init__(self, browser, aggregator, url):
        self.browser = browser
        self.aggregator = aggregator
        self.url = url
        self.token = (aggregator.state / "admin.token").read_text().strip()

    def api(self, path):
        asked = urllib.request.Request(f"{self.url}api/v1/{path}", headers={"Authorization": f"Bearer {self.token}"})
        with urllib.request.urlopen(asked, timeout=60) as reply:
            return json.load(reply)

    def check_console(self, allowed=""):
        said = [line["message"] for line in self.browser.console()]
        bad = [line for line in said if not allowed or allowed not in line]
        check(not bad, f"on the console: {bad}")

    def check_access(self, what):
        """axe-core is put in beside the page, as an extension would."""
        self.browser.run(AXE + "\nreturn true")
        found = self.browser.run_until_called(
            "const done = arguments[0];"
            "axe.run(document, {resultTypes: ['violations']}).then("
            "r => done(r.violations.map(v => v.id + ': ' + v.nodes.map(n => n.html + ' ' + n.failureSummary)"
            ".slice(0, 3).join(' | '))), e => done(['axe: ' + e]))")
        check(not found, f"{what}: axe-core says {found}")

    def log_in(self):
        self.browser.open(self.url)
        self.browser.wait("return !document.getElementById('login').hidden", "the login form")
        self.browser.type("#token", self.token + ENTER)
        self.browser.wait("return performance.getEntriesByName('shown:overview').length", "the overview")

    def go(self, view):
        self.browser.run("performance.clearMarks(); location.hash = arguments[0]", view)
        self.browser.wait(f"return performance.getEntriesByName('shown:{view.partition('/')[0]}').length", view)

    def choose(self, selector, value):
        self.browser.run("const e = document.querySelector(arguments[0]); e.value = arguments[1];"
                         "e.dispatchEvent(new Event('change'))", selector, value)

    def confirm(self):
        self.browser.wait("return document.getElementById('dialog').open", "the dialog")
        self.browser.click("#dialog-confirm")


def test_login(board):
    browser = board.browser
    browser.open(board.url)
    browser.wait("return !document.getElementById('login').hidden", "the login form")
    check(browser.run("return document.activeElement.id") == "token", "the token's field has no focus")
    board.check_access("login")
    for name, look in LOOKS.items():
        browser.look(*look)
        browser.screenshot(SHOTS / f"login-{name}.png")
    board.check_console()
    browser.type("#token", "not the token" + ENTER)
    browser.wait(has_text("#login-error", "No token has this text"), "the refusal")
    board.check_console(allowed="401")
    board.log_in()
    board.check_console()
    cookie = browser.do("GET", "/cookie")[0]
    check(cookie["httpOnly"] and cookie["sameSite"] == "Strict", f"the cookie is {cookie}")
    check(browser.run("return document.cookie") == "", "a script reads the cookie")


def test_views(board):
    browser = board.browser
    for view in VIEWS:
        for name, look in LOOKS.items():
            browser.look(*look)
            board.go(view)
            board.check_access(f"{view}, {name}")
            wide = browser.run("return document.documentElement.scrollWidth - innerWidth")
            check(wide <= 0, f"{view}, {name}: {wide} pixels are beyond the screen's edge")
            browser.screenshot(SHOTS / f"{view.replace('/', '-')}-{name}.png")
    browser.look(*LOOKS["light"])
    board.check_console()


def test_what_is_shown(board):
    browser = board.browser
    board.go("overview")
    check(browser.run(has_text("#now-sentence", f"round {ROUNDS + 1} waits for 40 of its members")),
          browser.run("return document.getElementById('now').textContent"))
    advice = browser.run("return document.getElementById('now-advice').textContent")
    check("“Close round” ends it now" in advice and "`" not in advice, advice)
    check(browser.run(has_text("#missing", "gateway-00005")), "who is missing")
    check(browser.run(has_text("#figures", "5,000")), "the number of rounds")
    drawn = browser.run("return document.querySelectorAll('#charts svg.chart').length")
    check(drawn == 3, f"{drawn} charts")
    check(browser.run(has_text("#charts .legend", f"last: round {ROUNDS:,}")), "the legend has no values without a pointer, or those of the open round")
    board.go("clients")
    check(browser.run(has_text("#clients-table [role=status]", "of 10,000 clients")), "the number of clients")
    board.go("codes")
    check(browser.run(has_text("#codes-table", "greenhouse <b>north</b>")), "markup in a label is text")
    check(browser.run("return document.querySelector('#codes-table b') === null"), "a label became markup")


def test_curves_against_bytes(board):
    browser = board.browser
    board.go("overview")
    browser.click("input[name=axis][value=bytes]")
    browser.wait(has_text("#charts .legend", "last: bytes"), "curves against bytes")
    browser.screenshot(SHOTS / "overview-bytes.png")
    browser.run("document.querySelector('.plot').focus()")
    browser.press(LEFT, LEFT)
    browser.wait("return document.querySelector('figure .unseen').textContent.includes('accuracy')",
                 "a point of the curve, by keyboard")
    browser.click("input[name=axis][value=rounds]")


def test_curves_are_chosen(board):
    """Any figure that evaluators report, and what clients found on held-out data, with spread and worst client."""
    browser = board.browser
    board.go("overview")
    options = browser.run("return [...document.getElementById('figure').options].map(o => o.value)")
    check(options == ["evaluated:accuracy", "evaluated:f1_macro", "held-out:loss"], f"{options}")
    board.choose("#figure", "evaluated:f1_macro")
    browser.wait(has_text("#figures", "F1 macro"), "the figure that was chosen")
    board.choose("#figure", "held-out:loss")
    browser.wait("return document.querySelector('.plot').ariaLabel.includes('worst client: 2')", "a curve of held-out data")
    said = browser.run("return document.querySelector('.plot').ariaLabel")
    for part in ("Loss.", "weighted by examples: 2.", "clients alike: 2.", "deviation: "):
        check(part in said, f"{part} is not in {said}")
    board.check_access("held-out data")
    browser.screenshot(SHOTS / "overview-held-out.png")
    board.choose("#layer", "tls")
    browser.wait(has_text("#charts figure:last-child figcaption", "with TLS"), "a layer's bytes")
    board.choose("#layer", "wire")
    board.choose("#figure", "evaluated:accuracy")


def test_bytes_of_a_round(board):
    browser = board.browser
    board.go("overview")
    board.choose("#layers-round", "7")
    browser.wait(has_text("#layers caption", "Bytes of round 7 by layer"), "one round")
    rows = browser.run("return [...document.querySelectorAll('#layers tbody tr')].map(r => [...r.children].map(c => c.textContent))")
    # Three updates, see make_federation.c and large_federation.py: payload, then what each layer adds.
    check([row[3] for row in rows] == ["84 B", "246 B", "120 B", "330 B", "780 B", "2.06 KB"], f"{rows}")
    check([row[1] for row in rows][1:4] == ["285 B", "135 B", "270 B"] and rows[-1][1] == "2.06 KB", f"{rows}")
    browser.screenshot(SHOTS / "overview-round.png")
    board.choose("#layers-round", str(ROUNDS + 2))
    browser.wait(has_text("#layers", f"There is no round {ROUNDS + 2}"), "a round that is not there")
    board.choose("#layers-round", "")
    browser.wait(has_text("#layers caption", "Bytes of all rounds"), "all rounds")


def test_tables_have_the_columns_of_the_api(board):
    """Titles and order, so that a new column of a list needs no line of the page."""
    browser = board.browser
    for view, table, listing in (("clients", "clients-table", "clients"), ("rounds", "rounds-table", "rounds"),
                                 ("codes", "codes-table", "codes"), ("system", "audit-table", "audit"),
                                 ("client/1", "client-rounds", "rounds of a client")):
        board.go(view)
        described = board.api("views")[listing]
        titles = [column["title"] for column in described if column["listed"]]
        heads = browser.run(f"return [...document.querySelectorAll('#{table} thead th button')].map((head) => head.textContent)")
        check(heads == titles, f"{heads}, not {titles}")


def test_tables(board):
    browser = board.browser
    board.go("clients")
    first = "return document.querySelector('#clients-table tbody th').textContent"
    browser.click("#clients-table .tools button:last-child")
    check(browser.run(first) == "51", "the second page")
    browser.type("#clients-table input", "gateway-09876")
    browser.wait(first + " === '9,876'", "the client that was looked for")
    browser.run("const i = document.querySelector('#clients-table input'); i.value = '';"
                "i.dispatchEvent(new Event('input'))")
    browser.click("#clients-table thead th:first-child button")
    check(browser.run(first) == "10,000", "the last client first")
    check(browser.run("return document.querySelector('#clients-table th').getAttribute('aria-sort')")
          == "descending", "how it is sorted is said")


def test_revocation_is_confirmed(board):
    browser = board.browser
    board.go("clients")
    browser.type("#clients-table input", "gateway-00123")
    button = "#clients-table tbody button"
    browser.wait(f"return document.querySelector('{button}')?.ariaLabel === 'Revoke client 123'", "the client")
    browser.run(f"document.querySelector('{button}').focus()")
    browser.press(ENTER)
    browser.wait("return document.getElementById('dialog').open", "the question")
    check(browser.run("return document.activeElement.id") == "dialog-cancel", "what is safe has the focus")
    board.check_access("dialog")
    browser.screenshot(SHOTS / "dialog.png")
    browser.press(ESCAPE)
    browser.wait("return !document.getElementById('dialog').open", "the end of the question")
    check(board.aggregator.json("clients")[122]["revoked"] is False, "it was revoked unasked")
    browser.press(ENTER)
    board.confirm()
    browser.wait(has_text("#clients-table tbody tr", "revoked"), "the revocation")
    check(board.aggregator.json("clients")[122]["revoked"] is True, "it was not revoked")


def test_codes(board):
    browser = board.browser
    board.go("codes")
    browser.type("#code-label", "by a browser")
    browser.click("#code-form button")
    board.confirm()
    browser.wait("return document.querySelector('#dialog .code')?.textContent.length === 19", "the code")
    board.check_access("a code")
    browser.screenshot(SHOTS / "code.png")
    browser.click("#dialog-confirm")
    browser.wait(has_text("#codes-table", "by a browser"), "the code in the list")
    browser.type("#codes-table input", "by a browser")
    browser.click("#codes-table tbody button")
    board.confirm()
    browser.wait(has_text("#codes-table tbody", "used up"), "the code, cancelled")


def test_round_is_closed(board):
    browser = board.browser
    board.go("overview")
    browser.click("#close-round")
    browser.wait("return document.getElementById('dialog').open", "the question")
    board.confirm()
    board.aggregator.log_line("round-ended-by-hand")
    board.check_console()


def processor_ms(browser):
    """That the page has taken so far, without what waited for others."""
    metrics = {one["name"]: one["value"] for one in browser.devtools("Performance.getMetrics")["metrics"]}
    return 1000 * metrics["TaskDuration"]


def test_how_long_it_takes(board):
    """From the address to the drawn page, and from there to all clients; with a session. By the page's own time on
    the processor; the time that passed is printed beside it."""
    browser = board.browser
    browser.open("about:blank")
    browser.devtools("Performance.enable", timeDomain="threadTicks")
    browser.open(board.url + "#overview")
    browser.wait("return performance.getEntriesByName('shown:overview').length", "the overview")
    overview = processor_ms(browser)
    passed = browser.run("return performance.getEntriesByName('shown:overview')[0].startTime")
    print(f"{ROUNDS} rounds: {overview:.0f} ms of the processor, {passed:.0f} ms after the address was entered")
    check(0 < overview < SLOWEST_MS, "the overview takes too long")
    for view in ("rounds", "clients", "overview"):
        before = processor_ms(browser)
        browser.run("performance.clearMarks(); performance.mark('begin'); location.hash = arguments[0]", view)
        browser.wait(f"return performance.getEntriesByName('shown:{view}').length", view)
        took = processor_ms(browser) - before
        passed = browser.run(f"return performance.getEntriesByName('shown:{view}')[0].startTime"
                             " - performance.getEntriesByName('begin')[0].startTime")
        print(f"{view}: {took:.0f} ms of the processor, {passed:.0f} ms after the click")
        check(0 < took < SLOWEST_MS, f"{view} takes too long")
        nodes = browser.run("return document.getElementsByTagName('*').length")
        check(nodes < NODES, f"{view}: {nodes} elements for {CLIENTS} clients and {ROUNDS} rounds")
    fetched = browser.run("return performance.getEntriesByType('resource').map(r => r.name)")
    check(all(name.startswith(board.url) for name in fetched), f"something came from elsewhere: {fetched}")


def test_one_client(board):
    """By its id in the list: what it is, its error ledger, its rounds."""
    browser = board.browser
    board.go("clients")
    browser.run("const i = document.querySelector('#clients-table input'); i.value = 'device-1'; i.dispatchEvent(new Event('input'))")
    browser.wait("return document.querySelector('#clients-table tbody a')?.hash === '#client/1'", "its row")
    browser.click("#clients-table tbody a")
    browser.wait(has_text("#client-title", "Client 1: device-1"), "the client")
    browser.wait(has_text("#client-rounds", f"{ROUNDS:,}"), "its last round")
    for part in ("Residual error, norm", "Updates accepted", "Last seen"):
        check(browser.run(has_text("#client-about", part)), f"{part} is not there")
    check(browser.run("return document.querySelector('nav [aria-current]').hash") == "#clients", "where one is")
    board.go("clients")
    browser.run("const i = document.querySelector('#clients-table input'); i.value = ''; i.dispatchEvent(new Event('input'))")


def test_comparison(board):
    """With a run that the page has saved: curves of both, and a table."""
    browser = board.browser
    board.go("overview")
    run_file = SHOTS / "run.json"
    run_file.write_text(browser.run_until_called(
        "const done = arguments[0]; const made = URL.createObjectURL; URL.createObjectURL = (blob) => { URL.createObjectURL = made;"
        "blob.text().then(done); return made.call(URL, blob); }; document.getElementById('save-run').click()"))
    columns = json.loads(run_file.read_text())["rounds"]
    check(len(columns["round"]) == ROUNDS, "the open round is in it, or others are not")
    browser.type("#other-run", str(run_file))
    browser.wait(has_text("#compared-table", "Duration"), "the comparison")
    check(browser.run("return document.querySelectorAll('#charts path.other').length") == 6, "curves of the other run")
    browser.click("input[name=axis][value=time]")
    browser.wait(has_text("#charts .legend", "since the first round"), "times of both")
    board.check_access("comparison")
    browser.screenshot(SHOTS / "overview-compared.png")
    browser.click("input[name=axis][value=rounds]")
    browser.click("#compare-end")
    browser.wait("return document.getElementById('compared').hidden", "the end of it")
    run_file.write_text('{"rounds": {"round": [1]}}')
    browser.type("#other-run", str(run_file))
    browser.wait(has_text("#dialog-body", "has no column"), "what is wrong with a file")
    browser.click("#dialog-confirm")


def test_system(board):
    browser = board.browser
    board.go("system")
    browser.wait(has_text("#settings-table", "round.cohort"), "the settings")
    check(browser.run(has_text("#accuracies", "codec.accuracy = balanced: about ")), "what a round costs by codec.accuracy")
    check(browser.run(has_text("#log", "event=")), "the log")
    browser.click("#doctor-run")
    browser.wait(has_text("#doctor", "certificate"), "what doctor has found")
    board.check_access("findings")
    browser.click("#model-download")
    browser.wait("return document.getElementById('model-download').textContent === 'Download the model'", "the download")
    check(not browser.run("return document.getElementById('dialog').open"), "the download failed")
    board.check_console()


def test_logout(board):
    browser = board.browser
    browser.click("#logout")
    browser.wait("return !document.getElementById('login').hidden", "the login form")
    check(browser.do("GET", "/cookie") == [], "the cookie is still there")
    check(browser.run("return localStorage.length") == 0, "the key is still there")
    board.check_console()


def test():
    SHOTS.mkdir(parents=True, exist_ok=True)
    with Workspace() as workspace:
        port_file = workspace.path / "admin.port"
        aggregator = Aggregator(workspace, {
            "federation": {"model": "mlp:16-8-4", "seed": 7}, "round": {"cohort": 40, "min_clients": 1, "deadline": "1d"},  # nobody is asked in another's place
            "admin": {"address": "127.0.0.1", "port": 0, "port_file": port_file}})
        run(HELPERS / "make_federation", aggregator.state / "tern.db", ROUNDS)
        fill(aggregator.state / "tern.db", CLIENTS, ROUNDS)
        aggregator.start()
        aggregator.log_line("listening on")  # by then both ports are written
        browser = Browser(SHOTS / "chromedriver.log")
        try:
            board = Dashboard(browser, aggregator, f"http://localhost:{int(port_file.read_text())}/")
            for part in (test_login, test_views, test_what_is_shown, test_curves_against_bytes, test_curves_are_chosen,
                         test_bytes_of_a_round, test_tables_have_the_columns_of_the_api, test_tables, test_one_client, test_comparison, test_system,
                         test_revocation_is_confirmed, test_codes, test_round_is_closed,
                         test_how_long_it_takes, test_logout):
                part(board)
                print(f"ok      {part.__name__}", flush=True)
        finally:
            browser.close()


main(test)
