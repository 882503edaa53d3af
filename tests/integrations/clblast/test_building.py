"""Parameters of CLBlast as files: they compile, and set what the configuration says."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from seqtune.integrations.clblast.kernels import xgemm_direct
from seqtune.kernels.linting.kernel import typical_device
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.building.chosen import Chosen, files_of, write_folder
from tests.support.learning.c_programs import needs_compiler

# The functions of the library's header that the files use.
HEADER = """
#include <stdio.h>
typedef void *cl_device_id;
typedef enum { CLBlastSuccess = 0 } CLBlastStatusCode;
typedef enum { CLBlastPrecisionSingle = 32 } CLBlastPrecision;
static CLBlastStatusCode CLBlastOverrideParameters(const cl_device_id device, const char *kernel,
        const CLBlastPrecision precision, const size_t count, const char **names, const size_t *values)
{
    if (device || precision != CLBlastPrecisionSingle)
        return (CLBlastStatusCode)1;
    for (size_t i = 0; i < count; i++)
        printf("%s %s %d\\n", kernel, names[i], (int)values[i]);
    return CLBlastSuccess;
}
"""


@needs_compiler
def test_the_parameters_reach_the_library(tmp_path: Path) -> None:
    problem, device, family = parse_problem("gemm m=64 n=96 k=32"), typical_device("opencl"), xgemm_direct.KERNEL
    configuration = SearchSpace(family, problem, device)[0]
    files = files_of([Chosen("product", problem, device, family, configuration, "the first proposal")])
    main = b'#include "product.h"\nint main(void) { return (int)product_parameters(0); }\n'
    write_folder({**files, "clblast_c.h": HEADER.encode(), "main.c": main}, tmp_path / "out")
    sets = json.loads(files["launch.json"])["kernels"][0]["override_parameters"]
    assert sets["XgemmDirect"] == {name: int(value) for name, value in configuration.settings}
    wanted = {f"{kernel} {name} {value}" for kernel, parameters in sets.items() for name, value in parameters.items()}
    for language in (["-std=c99"], ["-x", "c++"] if shutil.which("c++") else ["-std=c99"]):
        subprocess.run(["cc", *language, "-Wall", "-Wextra", "-Werror", "-pedantic", "-I.", "-o", "main", "main.c"],
                       cwd=tmp_path / "out", check=True)
        said = subprocess.run([tmp_path / "out" / "main"], capture_output=True, text=True, check=True).stdout
        assert set(said.splitlines()) == wanted
