#!/usr/bin/env python3
"""Writes tests/vectors from the reference, or with --check compares what is there with it.

    make_vectors.py [--check] FOLDER

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

import os
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


def main():
    check = "--check" in sys.argv[1:]
    folders = [argument for argument in sys.argv[1:] if argument != "--check"]
    if len(folders) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    failed = 0
    for name, cases in FILES.items():
        path = os.path.join(folders[0], name)
        text = "# Made by tests/reference/make_vectors.py\n\n" + "".join(cases())
        if not check:
            with open(path, "w") as file:
                file.write(text)
            continue
        with open(path) as file:
            if file.read() != text:
                print("%s is not what the reference makes of it" % path, file=sys.stderr)
                failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
