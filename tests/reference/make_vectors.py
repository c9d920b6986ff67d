#!/usr/bin/env python3
"""Writes the vectors: examples of every mode, made by the reference. The build writes them to build/tests/vectors.

    make_vectors.py FOLDER
    make_vectors.py --check    fails where vectors.sha256, beside this file, has another hash
    make_vectors.py --freeze   writes vectors.sha256, after an intended change of the format

One item a line. float32 values are the hexadecimal of their bits, `*3` behind one repeats it three
times in all; bytes are pairs of digits.

codecs.txt      input VALUES            then, each for the values, cases:
                velocity VALUES         of the next case, if it has one
                indices BYTES           of the next case, if it has one
                case SPEC SEED ROUND CLIENT SEGMENT
                payload BYTES, fed-back VALUES, and velocity-after VALUES if there is one;
                or refused RESULT
coders.txt      symbols - . + with repeats, `+-.*12`; for each coder its name and the bytes behind
                the scale
payloads.txt    payload NAME COUNT BYTES, then values VALUES or refused RESULT
containers.txt  container MODEL SPEC, input, bytes, fed-back
shares.txt      leader MODEL SPEC CONTAINER, then the indices made of it, the input and the own
                container of a client that is given them, that stripped, and joined again
models.txt      model SPEC COUNT, hash, segments, tensors, SHA-256 of the initial weights
manifests.txt   manifest BYTES, then refused RESULT; or hash, segments (offset, count, rule), tensors
                (name, dims or -, offset, rule), first: the replica id of weights 0.5, and
                containers: SPEC, input, bytes, fed-back, values
specs.txt       spec TEXT, then canonical TEXT or refused RESULT
buffers.txt     error buffers: values NAME VALUES, then for each storage stored NAME BYTES and read;
                damaged STORAGE COUNT BYTES, then accepted or refused;
                step STORAGE DECAY BETA, then buffer, change, total, left, after;
                limit STORAGE C CODED, then buffer, change, decay, total;
                give-back STORAGE MODEL CONTAINER, then buffer, after
training.txt    network SPEC, weights VALUES, then examples: example LABEL, inputs VALUES,
                expected LOSS CLASS;
                batches SEED ROUND CLIENT EXAMPLES BATCH-SIZE, then for each step its examples
"""

import hashlib
import pathlib
import sys

import vector_buffers
import vector_codecs
import vector_manifests
import vector_models
import vector_payloads
import vector_training

FILES = {
    "codecs.txt": vector_codecs.codec_cases,
    "coders.txt": vector_codecs.coder_cases,
    "payloads.txt": vector_payloads.cases,
    "containers.txt": vector_models.container_cases,
    "shares.txt": vector_models.share_cases,
    "models.txt": vector_models.model_cases,
    "manifests.txt": vector_manifests.cases,
    "buffers.txt": vector_buffers.cases,
    "specs.txt": vector_models.spec_cases,
    "training.txt": vector_training.cases,
}


HASHES = pathlib.Path(__file__).with_name("vectors.sha256")


def changed(made):
    """Names of the files whose hash is another one than in vectors.sha256."""
    frozen = dict(reversed(line.split()) for line in HASHES.read_text().splitlines())
    return sorted(name for name in made.keys() | frozen.keys() if made.get(name) != frozen.get(name))


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    texts = {name: "".join(cases()) for name, cases in FILES.items()}
    if not sys.argv[1].startswith("--"):
        for name, text in texts.items():
            (pathlib.Path(sys.argv[1]) / name).write_text(text)
        return 0
    made = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}
    if sys.argv[1] == "--freeze":
        HASHES.write_text("".join(f"{made[name]}  {name}\n" for name in sorted(made)))
        return 0
    for name in changed(made):
        print(f"{name} has another hash than in {HASHES}: bytes of the format have changed. If that is intended, run "
              "make_vectors.py --freeze", file=sys.stderr)
    return 1 if changed(made) else 0


if __name__ == "__main__":
    sys.exit(main())
