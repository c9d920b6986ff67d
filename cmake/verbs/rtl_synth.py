"""Synthesizes the blocks of firmware_port/rtl and prints what they take.

Usage: rtl_synth.py RTL-FOLDER OUTPUT-FOLDER
yosys maps each block to iCE40 and ECP5. What fits is placed by nextpnr: on an iCE40 HX8K, and on an ECP5 of 24,000 LUTs
where nextpnr-ecp5 is installed. A block has more ports than a chip has pins: around it stand a register for each
input, fed one from the other, and one for each output, of which a tree of registers makes a single pin. So its paths
begin and end in registers, as within a larger design.
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys

# What places on a chip: yosys' pass, the tool and its options, and how many LUTs the chip has.
CHIPS = {"iCE40 HX8K": ("synth_ice40 -abc9 -device hx", 7680,
                        ["nextpnr-ice40", "--hx8k", "--package", "ct256", "--freq", "200"]),
         "ECP5-25, speed grade 6": ("synth_ecp5", 24288,
                                    ["nextpnr-ecp5", "--25k", "--package", "CABGA381", "--speed", "6", "--freq", "200",
                                     "--lpf-allow-unconstrained"])}
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


def pins_around(read, module, out):
    """A file with the module `pins` around the block."""
    netlist, pins = out / f"{module}.json", out / f"{module}_pins.sv"
    yosys(out / f"{module}_ports.log", read, f"hierarchy -top {module}", "proc", f"write_json {netlist}")
    pins.write_text(within_pins(json.loads(netlist.read_text())["modules"][module]["ports"], module))
    return pins


def place(read, module, luts, chip, out):
    """MHz on that chip, and a few words where there are none."""
    synth, room, command = CHIPS[chip]
    if shutil.which(command[0]) is None:
        return None, f"no {command[0]} here"
    if luts >= room:
        return None, "too large"
    name = f"{module}_{command[0]}"
    netlist = out / f"{name}.json"
    yosys(out / f"{name}_yosys.log", f"{read} {pins_around(read, module, out)}", f"{synth} -top pins -json {netlist}")
    log = out / f"{name}.log"
    done = run(log, *command, "--seed", "1", "--json", str(netlist))
    clocks = re.findall(r"Max frequency for clock .*: ([\d.]+) MHz", log.read_text())
    if clocks:
        return float(clocks[-1]), ""
    return None, "too large" if done.returncode != 0 else f"no clock in {log}"


def main():
    rtl = pathlib.Path(sys.argv[1])
    out = pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    print("| module | values a cycle | iCE40: LUTs | flip-flops | RAMs | ECP5: LUTs | flip-flops | RAMs | "
          + " | ".join(f"{chip}, MHz | Gbit/s of float32" for chip in CHIPS) + " |")
    print("|" + " --- |" * (8 + 2 * len(CHIPS)))
    for module, file, values in BLOCKS:
        read = f"read_verilog -sv {rtl}/slice.sv {rtl}/{file}.sv"
        ice, ecp = out / f"{module}_ice40.txt", out / f"{module}_ecp5.txt"
        yosys(out / f"{module}_ice40.log", read, f"synth_ice40 -abc9 -device hx -top {module}", f"tee -o {ice} stat")
        yosys(out / f"{module}_ecp5.log", read, f"synth_ecp5 -top {module}", f"tee -o {ecp} stat")
        small, large = cells(ice), cells(ecp)
        flops = sum(count for name, count in small.items() if name.startswith("SB_DFF"))
        row = [module, values, small["SB_LUT4"], flops, small.get("SB_RAM40_4K", 0), large["LUT4"], large["TRELLIS_FF"],
               large.get("DP16KD", 0)]
        for chip, luts in zip(CHIPS, (small["SB_LUT4"], large["LUT4"]), strict=True):
            mhz, why = place(read, module, luts, chip, out)
            row += [f"{mhz:.0f}", f"{mhz * values * 32 / 1000:.1f}"] if mhz else [why, ""]
        print("| " + " | ".join(str(cell) for cell in row) + " |", flush=True)


if __name__ == "__main__":
    main()
