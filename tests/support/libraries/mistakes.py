"""Mistakes in a library's file: a correct file, and changes of it that each make one mistake."""

from __future__ import annotations

SOURCE = "kernel void stencil(global const float* x, global float* y, int n) {}\n"
CORRECT = """name = "stencil"

[operations.stencil]
features = {n = "rows", steps = {default = 1, low = 1, high = 64}, kind = {choices = ["a", "b"], default = "a"}}
derived = {flop = "6 * n * n * steps"}
rules = {"n % 2 == 0" = "n must be even"}
sizes = ["n"]
example = "stencil n=512"
inputs = {x = "n, n"}
outputs = {y = {shape = "n, n", tolerance = 1e-4}}
reference = "reference:run"

[kernels.tiled]
operation = "stencil"
parameters = {block_x = [16, 32, 64], block_y = [1, 2, 4], order = ["rows", "columns"]}
derived = {tile = "block_x * block_y"}
solves = {"n >= 16" = "a tile has 16 columns"}
constraints = ["tile <= 128"]
default = {block_x = 32}

[kernels.tiled.opencl]
source = "stencil.cl"
entry = "stencil"
arguments = ["x", "y", "int n"]
global = ["n", "n // block_y"]
local = ["block_x", 1]

[kernels.tool]
parameters = {block = [1, 2]}

[kernels.tool.command]
run = ["./bench", "{n}", "{block}"]
timeout = 5.0
"""
# In a mistake: words for texts that are too long to be written out.
LONG_TEXTS = {"DIGITS": "9" * 400, "DEEP": "-" * 100, "LONG": " + 1" * 1000}
# (name, text of the file, the text that replaces it, line:column, words of the message)
MISTAKES: tuple[tuple[str, str, str, str, str], ...] = (
    ('a table that is not closed', '[kernels.tiled]\n', '[kernels.tiled\n', '13:15', 'end of a table declaration'),
    ('a text that is not closed', 'name = "stencil"\n',
     'name = "stencil\n', '1:16', "not TOML: Illegal character '\\n'"),
    ('a key twice', 'sizes = ["n"]', 'rules = {}', '7:11', 'TOML: Cannot overwrite a value'),
    ('a table twice', '[kernels.tool]\n', '[kernels.tiled]\n', '28:15', "Cannot declare ('kernels', 'tiled') twice"),
    ('a value missing', 'sizes = ["n"]', 'sizes =', '7:8', '7:8: not TOML: Invalid value'),
    ('an unknown key at the top', 'name = "stencil"\n',
     'name = "stencil"\nversion = 3\n', '2:1', 'such key is known here'),
    ('an unknown key of an operation', 'sizes = ["n"]', 'size = ["n"]', '7:1',
     'such key is known here; did you mean sizes? known are meaning, '),
    ('an unknown key of a feature', 'low = 1', 'least = 1', '4:47', 'such key is known here'),
    ('an unknown key of a kernel', 'solves =', 'solve =', '17:1', 'did you mean solves?'),
    ('an unknown key of a section', 'entry =', 'entri =', '23:1', 'did you mean entry?'),
    ('an unknown section', '[kernels.tiled.opencl]', '[kernels.tiled.vulkan]', '21:1', 'such key is known here'),
    ('no name', 'name = "stencil"\n', '', '1:1', "1:1: it lacks 'name'"),
    ('a name with a space', 'name = "stencil"', 'name = "my stencil"', '1:8', 'at most 60 characters long'),
    ('a name of our own', 'name = "stencil"', 'name = "opencl"', '1:8', 'rename one of the two'),
    ('an operation that nobody declares', '[operations.stencil]',
     '[operations.grid]', '14:13', "'stencil'; declare it in [operations.NAME]"),
    ('no operation where two are declared', '[kernels.tool]\n',
     '[operations.grid]\nfeatures = {n = "rows"}\n\n[kernels.tool]\n', '31:1', 'the library declares stencil, grid'),
    ('a feature that is a keyword', '{n = "rows"', '{in = "rows"', '4:13', 'and cannot be a name'),
    ('a feature that is a column', '{n = "rows"', '{count = "rows"', '4:13', 'problems have such a column'),
    ('bounds in the wrong order', 'high = 64',
     'high = 0', '4:53', 'operations.stencil.features.steps.low: low=1 is above high=0'),
    ('a default out of bounds', 'default = 1,', 'default = 65,', '4:44', 'steps.default: steps=65 is outside 1..64'),
    ('a default that is no choice', 'default = "a"', 'default = "c"', '4:108', 'not one of a, b'),
    ('a choice twice', 'choices = ["a", "b"]', 'choices = ["a", "A"]', '4:86', 'and lower case are equal)'),
    ('bounds of a feature that may have fractions', 'steps = {default = 1, low = 1,',
     'steps = {default = 1, number = true, low = 1,', '4:62', 'is any positive number; bounds are for whole numbers'),
    ('a choice that is a number among words', 'choices = ["a", "b"]', 'choices = ["a", 2]', '4:92',
     "2 and 'a' are choices of one feature; write all as words or all as whole numbers"),
    ('no choice', 'low = 1, high = 64', 'choices = []', '4:57', 'there is no choice'),
    ('a bound of more than 64 bits', 'low = 1,', 'low = DIGITS,', '4:53', '9999999999999999999999999999999999999999'),
    ('an expression that ends early', '"6 * n * n * steps"', '"6 * n * n *"', '5:19', "* n *': invalid syntax"),
    ('an expression with an unknown name', '"6 * n * n * steps"', '"6 * m * n * steps"', '5:19', "m * n * steps'"),
    ('an expression that calls a function', '"6 * n * n * steps"',
     '"open(n)"', '5:19', "allowed in the expression 'open(n)'"),
    ('an expression that is too deep', '"6 * n * n * steps"',
     '"DEEPn"', '5:19', "---------------------------------------'"),
    ("a derived size with a feature's name", '{flop =', '{n =', '5:12', 'name of a feature, too'),
    ('a rule without a reason', '{"n % 2 == 0" = "n must be even"}', '{"n % 2 == 0" = 1}', '6:25', 'be a text, not 1'),
    ('a rule with an unknown name', '"n % 2 == 0"', '"m % 2 == 0"', '6:25', "'m % 2 == 0'"),
    ('a size that is no feature', 'sizes = ["n"]', 'sizes = ["n", "m"]', '7:15', 'that is a whole number'),
    ('an example that breaks a rule', 'n=512"', 'n=511"', '8:11', 'be even (found stencil n=511)'),
    ('an example of another operation', '"stencil n=512"', '"gemm m=1 n=1 k=1"', '8:11', 'a gemm, not a stencil'),
    ('a shape with an unknown name', '{x = "n, n"}', '{x = "n, m"}', '9:15', "name 'm' in 'n, m'"),
    ('an unknown element type', 'shape = "n, n", t',
     'shape = "n, n", dtype = "bf32", t', '10:41', "no element type 'bf32'; there are fp32, fp16"),
    ('a negative tolerance', '1e-4', '-1e-4', '10:45', 'equal to 0, not -0.0001'),
    ("an output with an input's name", '{y = {', '{x = {', '10:12', 'name of an input, too'),
    ('a reference without a function', '"reference:run"',
     '"reference"', '11:13', "nce: 'reference' is not module:attribute"),
    ('a reference outside of the folder', '"reference:run"',
     '"os:system"', '11:13', "'os.py' in the library's folder"),
    ('a reference and expected data', 'reference = "reference:run"',
     'reference = "reference:run"\nexpected = {y = "y.npy"}', '12:17', "'y.npy' in the library's folder"),
    ('expected data that is missing', 'reference = "reference:run"',
     'expected = {y = "y.npy"}', '11:17', "'y.npy' in the library's folder"),
    ('a kernel for an unknown operation', 'operation = "stencil"',
     'operation = "stencils"', '14:13', "'stencils'; declare it in [operations.NAME]"),
    ("a kernel's name with a dot", '[kernels.tool]\n', '[kernels."to.ol"]\n', '28:1', 'at most 60 characters long'),
    ('no parameters', 'parameters = {block = [1, 2]}\n', '', '28:1', "28:1: kernels.tool: it lacks 'parameters'"),
    ('a number that the type of an input cannot hold', '{x = "n, n"}',
     '{x = {shape = "n", dtype = "uint8", values = -1}}', '9:55', '-1 does not fit into uint8'),
    ('contents that are no number', '{x = "n, n"}', '{x = {shape = "n", values = nan}}', '9:38',
     'nan is not a number that fp32 can hold'),
    ('contents that nobody knows', 'shape = "n, n", t', 'shape = "n, n", values = "copy x", t', '10:42',
     "no contents 'copy x'; there are normal, uniform, zeros, ones, index, 'uniform 0..9', 'normal seed 3', "
     "a number, a .npy file and"),
    ('a copy of an input that is missing', 'shape = "n, n", t', 'shape = "n, n", values = "copy of z", t', '10:42',
     "no input is called 'z'; there are x"),
    ('an input that is a copy', '{x = "n, n"}', '{x = {shape = "n, n", values = "copy of x"}}', '9:41',
     'only an output can start as a copy of an input'),
    ('a parameter without values', '[1, 2, 4]', '[]', '15:49', 'needs at least 1 entries'),
    ('a value twice', '[1, 2, 4]',
     '[1, 2, 1]', '15:56', 'kernels.tiled.parameters.block_y.values.2: 1 is listed twice'),
    ('a value of more than 64 bits', '[1, 2, 4]', '[1, DIGITS]', '15:53', 'at most 64 bits'),
    ('an empty word in a kernel that is no command', 'order = ["rows", "columns"]', 'order = ["rows", ""]', '15:77',
     'only a kernel that is a command may have an empty word as a value'),
    ('a program that may be left out', 'parameters = {block = [1, 2]}\n\n[kernels.tool.command]\nrun = ["./bench",',
     'parameters = {block = [1, ""]}\n\n[kernels.tool.command]\nrun = ["{block}",', '32:8',
     'which leaves out the program'),
    ('a parameter that is a range', '[1, 2, 4]', '"1..4"', '15:49', "or a table, not '1..4'"),
    ('a parameter that C needs', 'block_y = [1, 2, 4]',
     'block_y = [1, 2, 4], float = [1]', '15:60', 'so it cannot be defined'),
    ("a parameter with a feature's name", 'block_y = [1, 2, 4]', 'n = [1, 2, 4]', '15:39', 'or size of stencil, too'),
    ('a derived quantity that reads itself', '"block_x * block_y"', '"tile + 1"', '16:19', "'tile' in 'tile + 1'"),
    ('a condition on problems that reads a parameter', '{"n >= 16"',
     '{"n >= block_x"', '17:28', "'block_x' in 'n >= block_x'"),
    ('a constraint with an unknown name', '"tile <= 128"', '"tiles <= 128"', '18:16', "'tiles' in 'tiles <= 128'"),
    ('a constraint that is an assignment', '"tile <= 128"', '"tile = 128"', '18:16', "'tile = 128': invalid syntax"),
    ('a constraint twice', '["tile <= 128"]',
     '["tile <= 128", "tile <= 128"]', '18:15', 'a condition is listed twice'),
    ('a constraint that excludes everything', '["tile <= 128"]',
     '["tile <= 128", "block_x > 64"]', '18:31', "'block_x > 64' excludes all"),
    ('a constraint that multiplies a word', '["tile <= 128"]',
     '["tile <= 128", "order * 2 > 4"]', '18:31', "arithmetic on words in 'order * 2 > 4'"),
    ('a default of an unknown parameter', '{block_x = 32}',
     '{block_z = 32}', '19:12', "there is no parameter 'block_z'"),
    ('a default that is no value', '{block_x = 32}', '{block_x = 33}', '19:22', 'among the values of block_x'),
    ('a version of zero', 'default = {block_x = 32}', 'version = 0', '19:11', 'equal to 1, not 0'),
    ('no entry', 'entry = "stencil"\n', '', '21:1', "21:1: kernels.tiled.opencl: it lacks 'entry'"),
    ('no source', 'source = "stencil.cl"\n', '', '21:1', "'source' (a file) or 'text'"),
    ('a source that is missing', '"stencil.cl"', '"stencils.cl"', '22:10', "'stencils.cl' in the library's folder"),
    ('a source outside of the folder', '"stencil.cl"',
     '"../other/../secret.cl"', '22:10', "out of the library's folder"),
    ('a source through a link out of the folder', '"stencil.cl"', '"out.cl"', '22:10', "out of the library's folder"),
    ('a source that is a link to itself', '"stencil.cl"', '"loop"', '22:10', 'a link leads to itself'),
    ('a size of four axes', 'global = ["n", "n // block_y"]',
     'global = ["n", "n", 1, 1]', '25:10', 'has more than 3 entries'),
    ('an argument that is no expression', '"int n"', '"int n +"', '24:24', "cannot read the expression 'n +'"),
    ('local memory without a type', '"int n"', '"local n"', '24:24', 'names no type: local float n'),
    ('a size that is no expression', '"n // block_y"]', '"n //"]', '25:16', "cannot read the expression 'n //'"),
    ('an option that reads a file', 'local = ["block_x", 1]',
     'local = ["block_x", 1]\noptions = ["-w", "-I/etc"]', '27:18', "'-I/etc' is not allowed"),
    ('a word of a command with an unknown name', '"{block}"]', '"{bloc}"]', '32:26', "unknown name 'bloc'"),
    ('a command without words', 'run = ["./bench", "{n}", "{block}"]', 'run = []', '32:7', 'needs at least 1 entries'),
    ('a program that is missing', '"./bench"', '"./benches"', '32:8', "'./benches' in the library's folder"),
    ('a program outside of the folder', '"./bench"', '"../../bin/sh"', '32:8', "out of the library's folder"),
    ('a time limit of zero', 'timeout = 5.0', 'timeout = 0.0', '33:11', 'greater than 0, not 0.0'),
    ('a kernel that cannot run', '[kernels.tool.command]\nrun = ["./bench", "{n}", "{block}"]\ntimeout = 5.0\n',
     '', '28:1', 'runs ([kernels.NAME.opencl], cuda or command)'),
    ('an implementation and a section', 'operation = "stencil"',
     'operation = "stencil"\nimplementation = "reference:run"', '15:18', 'the kernel runs, not both'),
    ('a checkpoint outside of the folder', 'name = "stencil"\n',
     'name = "stencil"\ncheckpoint = ".."\n', '2:14', "out of the library's folder"),
    ("a NUL in a source's name", '"stencil.cl"', '"a\\u0000b"', '22:10', "path inside the library's folder"),
)
