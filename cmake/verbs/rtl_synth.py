"""Synthesizes the blocks of firmware_port/rtl and prints what they take.

Usage: rtl_synth.py RTL-FOLDER OUTPUT-FOLDER
yosys maps each block to iCE40 and ECP5. What fits an iCE40 HX8K is placed there by nextpnr-ice40. A block has more
ports than a chip has pins: around it stand a register for each input, fed one from the other, and one for each output, of
which a tree of registers makes a single pin. So its paths begin and end in registers, as within a larger design.
"""
import json
import pathlib
import re
import subprocess
import sys

HX8K_CELLS = 7680  # logic cells: a LUT and a flip-flop each
# What to synthesize: module, its file, values that pass in a cycle. Of the last two the blocks of eight are made.
BLOCKS = [("tern_ternary_encode", "ternary_encode", 5), ("tern_ternary_decode", "ternary_decode", 5),
          ("tern_inceptionn_encode", "inceptionn_encode", 8), ("tern_inceptionn_decode", "inceptionn_decode", 8),
          ("tern_inceptionn_code", "inceptionn_encode", 1), ("tern_inceptionn_value", "inceptionn_decode", 1)]


def run(log, *command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    log.write_text(done.stdout)
    return done


def yosys(log, *steps):
    done = run(log, "yosys", "-p", "; ".join(steps))
    if done.returncode != 0:
        sys.exit(f"yosys failed; {log} ends with: {done.stdout[-500:]}")


def cells(stat):
    """Cells by their kind, of what yosys' stat printed."""
    return {name: int(count) for name, count in re.findall(r"^ +([$\w]+) +(\d+)$", stat.read_text(), re.M)}


def within_pins(ports, module):
    """A module `pins` around a block: see above."""
    clocked = [name for name in ports if name != "clk"]
    width = {name: len(ports[name]["bits"]) for name in clocked}
    wires = [".clk(clk)"]
    sizes = {}
    for side, direction in (("i", "input"), ("o", "output")):
        at = 0
        for name in clocked:
            if ports[name]["direction"] == direction:
                wires.append(f".{name}({side}[{at + width[name] - 1}:{at}])")
                at += width[name]
        sizes[side] = at
    lines = ["module pins (input clk, input in, output out);",
             f"  logic [{sizes['i'] - 1}:0] i;", f"  logic [{sizes['o'] - 1}:0] o, q0;",
             f"  always_ff @(posedge clk) {{i, q0}} <= {{i[{sizes['i'] - 2}:0], in, o}};"]
    level, left = 0, sizes["o"]
    while left > 1:
        fewer = (left + 3) // 4
        lines.append(f"  logic [{fewer - 1}:0] q{level + 1};")
        lines += [f"  always_ff @(posedge clk) q{level + 1}[{n}] <= ^q{level}[{min(4 * n + 3, left - 1)}:{4 * n}];"
                  for n in range(fewer)]
        level, left = level + 1, fewer
    return "\n".join([*lines, f"  assign out = q{level}[0];", f"  {module} block ({', '.join(wires)});", "endmodule", ""])


def place(read, module, out):
    """MHz on an iCE40 HX8K, or None where it does not fit."""
    netlist = out / f"{module}.json"
    pins = out / f"{module}_pins.sv"
    yosys(out / f"{module}_ports.log", read, f"hierarchy -top {module}", "proc", f"write_json {netlist}")
    pins.write_text(within_pins(json.loads(netlist.read_text())["modules"][module]["ports"], module))
    yosys(out / f"{module}_pins.log", f"{read} {pins}", f"synth_ice40 -abc9 -device hx -top pins -json {netlist}")
    log = out / f"{module}_nextpnr.log"
    run(log, "nextpnr-ice40", "--hx8k", "--package", "ct256", "--freq", "200", "--seed", "1", "--json", str(netlist))
    clocks = re.findall(r"Max frequency for clock .*: ([\d.]+) MHz", log.read_text())
    return float(clocks[-1]) if clocks else None


def main():
    rtl = pathlib.Path(sys.argv[1])
    out = pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    print("| module | values a cycle | iCE40: LUTs | flip-flops | RAMs | ECP5: LUTs | flip-flops | RAMs | iCE40 HX8K, MHz | "
          "Gbit/s of float32 |")
    print("|" + " --- |" * 10)
    for module, file, values in BLOCKS:
        read = f"read_verilog -sv {rtl}/slice.sv {rtl}/{file}.sv"
        ice, ecp = out / f"{module}_ice40.txt", out / f"{module}_ecp5.txt"
        yosys(out / f"{module}_ice40.log", read, f"synth_ice40 -abc9 -device hx -top {module}", f"tee -o {ice} stat")
        yosys(out / f"{module}_ecp5.log", read, f"synth_ecp5 -top {module}", f"tee -o {ecp} stat")
        small, large = cells(ice), cells(ecp)
        flops = sum(count for name, count in small.items() if name.startswith("SB_DFF"))
        mhz = place(read, module, out) if small["SB_LUT4"] < HX8K_CELLS else None
        clock = f"{mhz:.0f} | {mhz * values * 32 / 1000:.1f}" if mhz else f"does not fit in {HX8K_CELLS} cells | "
        print(f"| {module} | {values} | {small['SB_LUT4']} | {flops} | {small.get('SB_RAM40_4K', 0)} | {large['LUT4']} | "
              f"{large['TRELLIS_FF']} | {large.get('DP16KD', 0)} | {clock} |", flush=True)


if __name__ == "__main__":
    main()
