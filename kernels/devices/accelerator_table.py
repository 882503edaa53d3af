"""The facts of GPU architectures and models as text, one a line. Numbers in their units; `-`: not known.

Sources. Architectures: technical specifications per compute capability of NVIDIA's CUDA C++ Programming Guide, and
AMD's instruction set guides; rates of matrix units: the makers' architecture white papers and data sheets, as dense
operations a clock and unit. Models: the makers' data sheets (V100: NVIDIA V100 data sheet of January 2020, which has 16
and 32 GB of each form, and product brief PB-08744-001); caches also by the white papers and the drivers. Clocks
are boost clocks, so that rates are peaks; where a data sheet gives a rate and no clock, the clock follows from it. A
unit is a streaming multiprocessor or an AMD compute unit; GPUs of two dies that the driver shows as two devices have
the facts of one.
"""

from __future__ import annotations

# name: as compilers call it
# generation: the maker's name for it
# lanes: fp32 multiply-adds a clock and unit
# fp16, fp8, int8: matrix operations a clock and unit, fp16 with fp32 accumulation; 0: the unit has no such
#   instructions. Without matrix units, fp16 is the rate of packed arithmetic.
# threads, blocks: the most that are resident in a unit
# shared, block, reserved, l1: KiB of shared memory in a unit, at most in a block, taken by the driver for each block,
#   and of the first-level cache (with the shared memory on NVIDIA's)
# registers: of 32 bits in a unit
# warp: threads
ARCHITECTURES = """
name     generation  lanes  fp16  fp8   int8  threads blocks shared block reserved l1  registers warp
sm_60    Pascal      64     256   0     0     2048    32     64     48    0        24  65536     32
sm_61    Pascal      128    -     0     0     2048    32     96     48    0        48  65536     32
sm_70    Volta       64     1024  0     0     2048    32     96     96    0        128 65536     32
sm_75    Turing      64     1024  0     2048  1024    16     64     64    0        96  65536     32
sm_80    Ampere      64     2048  0     4096  2048    32     164    163   1        192 65536     32
sm_86    Ampere      128    1024  0     2048  1536    16     100    99    1        128 65536     32
sm_89    Ada         128    1024  2048  2048  1536    24     100    99    1        128 65536     32
sm_90    Hopper      128    4096  8192  8192  2048    32     228    227   1        256 65536     32
sm_100   Blackwell   128    8192  16384 16384 2048    32     228    227   1        256 65536     32
sm_103   Blackwell   128    8192  16384 -     2048    32     228    227   1        256 65536     32
sm_120   Blackwell   128    1024  2048  2048  1536    24     100    99    1        128 65536     32
sm_121   Blackwell   128    1024  2048  2048  1536    24     100    99    1        128 65536     32
gfx803   GCN4        64     128   0     0     2560    -      64     64    0        16  65536     64
gfx900   GCN5        64     256   0     0     2560    -      64     64    0        16  65536     64
gfx906   GCN5        64     256   0     0     2560    -      64     64    0        16  65536     64
gfx908   CDNA1       64     1024  0     1024  2560    -      64     64    0        16  131072    64
gfx90a   CDNA2       64     1024  0     1024  2048    32     64     64    0        16  131072    64
gfx942   CDNA3       128    2048  4096  4096  2048    32     64     64    0        32  131072    64
gfx950   CDNA4       128    4096  8192  8192  2048    32     160    160   0        32  131072    64
gfx1030  RDNA2       64     256   0     0     1024    16     64     64    0        16  65536     32
gfx1031  RDNA2       64     256   0     0     1024    16     64     64    0        16  65536     32
gfx1032  RDNA2       64     256   0     0     1024    16     64     64    0        16  65536     32
gfx1100  RDNA3       128    512   0     512   1024    16     64     64    0        32  98304     32
gfx1101  RDNA3       128    512   0     512   1024    16     64     64    0        32  98304     32
gfx1102  RDNA3       128    512   0     512   1024    16     64     64    0        32  65536     32
gfx1200  RDNA4       128    1024  2048  2048  1024    16     64     64    0        32  98304     32
gfx1201  RDNA4       128    1024  2048  2048  1024    16     64     64    0        32  98304     32
"""

# key: the short name of the model
# chip: the die, which different models share
# units: compute units; mhz: boost clock
# l2, l3: KiB of the second-level cache (of one die where a GPU has several), MiB of AMD's last-level cache
# gbs: peak GB/s of memory; gib: its size
# fp16, int8: matrix operations a clock and unit where the model has fewer than its architecture (fp8 in proportion to
#   fp16); `=`: as the architecture. NVIDIA's GeForce has half of fp16 with fp32 accumulation.
# names: the driver's name of it; after semicolons others that projects use, whole or before further words
MODELS = """
key                arch    chip   units mhz  l2     l3  gbs  gib fp16 int8 names
p100               sm_60   gp100  56    1480 4096   0   732  16  =    =    Tesla P100-SXM2-16GB; NVIDIA P100
p100-pcie          sm_60   gp100  56    1303 4096   0   732  16  =    =    Tesla P100-PCIE-16GB
p40                sm_61   gp102  30    1531 3072   0   346  24  =    =    Tesla P40; NVIDIA P40
p4                 sm_61   gp104  20    1063 2048   0   192  8   =    =    Tesla P4; NVIDIA P4
titan-xp           sm_61   gp102  30    1582 3072   0   548  12  =    =    NVIDIA TITAN Xp
gtx-1080-ti        sm_61   gp102  28    1582 2816   0   484  11  =    =    NVIDIA GeForce GTX 1080 Ti
gtx-1080           sm_61   gp104  20    1733 2048   0   320  8   =    =    NVIDIA GeForce GTX 1080
gtx-1070           sm_61   gp104  15    1683 2048   0   256  8   =    =    NVIDIA GeForce GTX 1070
gtx-1060           sm_61   gp106  10    1708 1536   0   192  6   =    =    NVIDIA GeForce GTX 1060 6GB
v100               sm_70   gv100  80    1530 6144   0   900  32  =    =    Tesla V100-SXM2-32GB; V100
v100-16gb          sm_70   gv100  80    1530 6144   0   900  16  =    =    Tesla V100-SXM2-16GB
v100-pcie          sm_70   gv100  80    1380 6144   0   900  32  =    =    Tesla V100-PCIE-32GB
v100-pcie-16gb     sm_70   gv100  80    1380 6144   0   900  16  =    =    Tesla V100-PCIE-16GB
titan-v            sm_70   gv100  80    1455 4608   0   653  12  =    =    NVIDIA TITAN V
t4                 sm_75   tu104  40    1590 4096   0   320  16  =    =    Tesla T4; NVIDIA T4
rtx-2060           sm_75   tu106  30    1680 3072   0   336  6   512  =    NVIDIA GeForce RTX 2060
rtx-2070           sm_75   tu106  36    1620 4096   0   448  8   512  =    NVIDIA GeForce RTX 2070
rtx-2070-super     sm_75   tu104  40    1770 4096   0   448  8   512  =    NVIDIA GeForce RTX 2070 SUPER
rtx-2080           sm_75   tu104  46    1710 4096   0   448  8   512  =    NVIDIA GeForce RTX 2080
rtx-2080-super     sm_75   tu104  48    1815 4096   0   496  8   512  =    NVIDIA GeForce RTX 2080 SUPER
rtx-2080-ti        sm_75   tu102  68    1545 5632   0   616  11  512  =    NVIDIA GeForce RTX 2080 Ti
titan-rtx          sm_75   tu102  72    1770 6144   0   672  24  =    =    NVIDIA TITAN RTX
quadro-rtx-5000    sm_75   tu104  48    1815 4096   0   448  16  =    =    Quadro RTX 5000
quadro-rtx-6000    sm_75   tu102  72    1770 6144   0   672  24  =    =    Quadro RTX 6000
quadro-rtx-8000    sm_75   tu102  72    1770 6144   0   672  48  =    =    Quadro RTX 8000
gtx-1650           sm_75   tu117  14    1665 1024   0   128  4   256  0    NVIDIA GeForce GTX 1650
gtx-1660           sm_75   tu116  22    1785 1536   0   192  6   256  0    NVIDIA GeForce GTX 1660
gtx-1660-super     sm_75   tu116  22    1785 1536   0   336  6   256  0    NVIDIA GeForce GTX 1660 SUPER
gtx-1660-ti        sm_75   tu116  24    1770 1536   0   288  6   256  0    NVIDIA GeForce GTX 1660 Ti
a100               sm_80   ga100  108   1410 40960  0   2039 80  =    =    NVIDIA A100-SXM4-80GB; NVIDIA A100
a100-40gb          sm_80   ga100  108   1410 40960  0   1555 40  =    =    NVIDIA A100-SXM4-40GB
a100-pcie          sm_80   ga100  108   1410 40960  0   1555 40  =    =    NVIDIA A100-PCIE-40GB
a100-pcie-80gb     sm_80   ga100  108   1410 40960  0   1935 80  =    =    NVIDIA A100 80GB PCIe
a800               sm_80   ga100  108   1410 40960  0   2039 80  =    =    NVIDIA A800-SXM4-80GB
a30                sm_80   ga100  56    1440 24576  0   933  24  =    =    NVIDIA A30
a2                 sm_86   ga107  10    1770 2048   0   200  16  =    =    NVIDIA A2
a10                sm_86   ga102  72    1695 6144   0   600  24  =    =    NVIDIA A10
a10g               sm_86   ga102  80    1710 6144   0   600  24  -    -    NVIDIA A10G
a40                sm_86   ga102  84    1740 6144   0   696  48  =    =    NVIDIA A40
a2000              sm_86   ga106  26    1200 3072   0   288  12  =    =    NVIDIA RTX A2000 12GB; NVIDIA RTX A2000
a4000              sm_86   ga104  48    1560 4096   0   448  16  =    =    NVIDIA RTX A4000
a4500              sm_86   ga102  56    1650 6144   0   640  20  =    =    NVIDIA RTX A4500
a5000              sm_86   ga102  64    1695 6144   0   768  24  =    =    NVIDIA RTX A5000
a6000              sm_86   ga102  84    1800 6144   0   768  48  =    =    NVIDIA RTX A6000
rtx-3050           sm_86   ga106  20    1777 2048   0   224  8   512  =    NVIDIA GeForce RTX 3050
rtx-3060           sm_86   ga106  28    1777 3072   0   360  12  512  =    NVIDIA GeForce RTX 3060
rtx-3060-laptop    sm_86   ga106  30    1425 3072   0   336  6   512  =    NVIDIA GeForce RTX 3060 Laptop GPU
rtx-3060-ti        sm_86   ga104  38    1665 4096   0   448  8   512  =    NVIDIA GeForce RTX 3060 Ti
rtx-3070           sm_86   ga104  46    1725 4096   0   448  8   512  =    NVIDIA GeForce RTX 3070
rtx-3070-ti        sm_86   ga104  48    1770 4096   0   608  8   512  =    NVIDIA GeForce RTX 3070 Ti
rtx-3080           sm_86   ga102  68    1710 5120   0   760  10  512  =    NVIDIA GeForce RTX 3080
rtx-3080-ti        sm_86   ga102  80    1665 6144   0   912  12  512  =    NVIDIA GeForce RTX 3080 Ti
rtx-3090           sm_86   ga102  82    1695 6144   0   936  24  512  =    NVIDIA GeForce RTX 3090
rtx-3090-ti        sm_86   ga102  84    1860 6144   0   1008 24  512  =    NVIDIA GeForce RTX 3090 Ti
l4                 sm_89   ad104  58    2040 49152  0   300  24  =    =    NVIDIA L4
l20                sm_89   ad102  92    2520 98304  0   864  48  512  -    NVIDIA L20
l40                sm_89   ad102  142   2490 98304  0   864  48  512  =    NVIDIA L40
l40s               sm_89   ad102  142   2520 98304  0   864  48  =    =    NVIDIA L40S
rtx-6000-ada sm_89 ad102 142 2505 98304 0 960 48 = = NVIDIA RTX 6000 Ada Generation; 6000 Ada; RTX 6000 Ada
rtx-5880-ada       sm_89   ad102  110   2461 98304  0   960  48  =    =    NVIDIA RTX 5880 Ada Generation
rtx-5000-ada       sm_89   ad102  100   2550 73728  0   576  32  =    =    NVIDIA RTX 5000 Ada Generation
rtx-4500-ada       sm_89   ad104  60    2580 49152  0   432  24  =    =    NVIDIA RTX 4500 Ada Generation
rtx-4000-ada       sm_89   ad104  48    2175 49152  0   360  20  =    =    NVIDIA RTX 4000 Ada Generation
rtx-4060           sm_89   ad107  24    2460 24576  0   272  8   512  =    NVIDIA GeForce RTX 4060
rtx-4060-ti        sm_89   ad106  34    2535 32768  0   288  16  512  =    NVIDIA GeForce RTX 4060 Ti
rtx-4070           sm_89   ad104  46    2475 36864  0   504  12  512  =    NVIDIA GeForce RTX 4070
rtx-4070-super     sm_89   ad104  56    2475 49152  0   504  12  512  =    NVIDIA GeForce RTX 4070 SUPER
rtx-4070-ti        sm_89   ad104  60    2610 49152  0   504  12  512  =    NVIDIA GeForce RTX 4070 Ti
rtx-4070-ti-super  sm_89   ad103  66    2610 49152  0   672  16  512  =    NVIDIA GeForce RTX 4070 Ti SUPER
rtx-4080           sm_89   ad103  76    2505 65536  0   717  16  512  =    NVIDIA GeForce RTX 4080
rtx-4080-super     sm_89   ad103  80    2550 65536  0   736  16  512  =    NVIDIA GeForce RTX 4080 SUPER
rtx-4090           sm_89   ad102  128   2520 73728  0   1008 24  512  =    NVIDIA GeForce RTX 4090; 4090
rtx-4090-d         sm_89   ad102  114   2520 73728  0   1008 24  512  =    NVIDIA GeForce RTX 4090 D
h100               sm_90   gh100  132   1830 51200  0   3352 80  =    =    NVIDIA H100 80GB HBM3; NVIDIA H100; H100 SXM
h100-pcie          sm_90   gh100  114   1755 51200  0   2039 80  =    =    NVIDIA H100 PCIe
h100-nvl           sm_90   gh100  132   1785 51200  0   3938 94  =    =    NVIDIA H100 NVL
h800               sm_90   gh100  132   1830 51200  0   3352 80  =    =    NVIDIA H800
h20                sm_90   gh100  78    1830 61440  0   4000 96  1024 2048 NVIDIA H20
h20-3e             sm_90   gh100  78    1830 61440  0   4800 141 1024 2048 NVIDIA H20-3e
h200               sm_90   gh100  132   1830 61440  0   4800 141 =    =    NVIDIA H200
h200-nvl           sm_90   gh100  132   1785 61440  0   4800 141 =    =    NVIDIA H200 NVL
gh200              sm_90   gh100  132   1830 61440  0   4000 96  =    =    NVIDIA GH200 480GB; NVIDIA GH200
b200               sm_100  gb100  148   1850 129024 0   8000 180 =    =    NVIDIA B200
gb200              sm_100  gb100  148   2062 129024 0   8000 186 =    =    NVIDIA GB200
b300               sm_103  gb110  148   1850 129024 0   8000 270 =    =    NVIDIA B300 SXM6 AC; NVIDIA B300
gb300              sm_103  gb110  148   2062 129024 0   8000 279 =    =    NVIDIA GB300
gb10               sm_121  gb20b  48    -    24576  0   273  128 512  -    NVIDIA GB10
rtx-5060-ti        sm_120  gb206  36    2572 32768  0   448  16  512  =    NVIDIA GeForce RTX 5060 Ti
rtx-5070           sm_120  gb205  48    2512 49152  0   672  12  512  =    NVIDIA GeForce RTX 5070
rtx-5070-ti        sm_120  gb203  70    2452 49152  0   896  16  512  =    NVIDIA GeForce RTX 5070 Ti
rtx-5080           sm_120  gb203  84    2617 65536  0   960  16  512  =    NVIDIA GeForce RTX 5080
rtx-5090           sm_120  gb202  170   2407 98304  0   1792 32  512  =    NVIDIA GeForce RTX 5090; 5090
rtx-pro-6000 sm_120 gb202 188 2617 131072 0 1792 96 = = NVIDIA RTX PRO 6000 Blackwell Workstation Edition; RTX PRO 6000
rtx-pro-6000-server sm_120 gb202  188   2493 131072 0   1597 96  =    =    NVIDIA RTX PRO 6000 Blackwell Server Edition
rtx-pro-6000-max-q sm_120 gb202 188 2288 131072 0 1792 96 = = NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition
rx-580             gfx803  polaris20 36 1340 2048   0   256  8   =    =    AMD Radeon RX 580
r9-fury-x          gfx803  fiji   64    1050 2048   0   512  4   =    =    AMD Radeon R9 Fury X
vega-56            gfx900  vega10 56    1471 4096   0   410  8   =    =    AMD Radeon RX Vega 56
vega-64            gfx900  vega10 64    1546 4096   0   484  8   =    =    AMD Radeon RX Vega 64
mi50               gfx906  vega20 60    1725 4096   0   1024 16  =    =    AMD Instinct MI50; Radeon Instinct MI50
mi60               gfx906  vega20 64    1800 4096   0   1024 32  =    =    AMD Instinct MI60; Radeon Instinct MI60
radeon-vii         gfx906  vega20 60    1750 4096   0   1024 16  =    =    AMD Radeon VII
mi100              gfx908  gfx908 120   1502 8192   0   1229 32  =    =    AMD Instinct MI100
mi210              gfx90a  gfx90a 104   1700 8192   0   1638 64  =    =    AMD Instinct MI210
mi250              gfx90a  gfx90a 104   1700 8192   0   1638 64  =    =    AMD Instinct MI250
mi250x             gfx90a  gfx90a 110   1700 8192   0   1638 64  =    =    AMD Instinct MI250X
mi300a             gfx942  gfx942 228   2100 4096   256 5300 128 =    =    AMD Instinct MI300A
mi300x             gfx942  gfx942 304   2100 4096   256 5300 192 =    =    AMD Instinct MI300X
mi308x             gfx942  gfx942 80    -    4096   256 5300 192 =    =    AMD Instinct MI308X
mi325x             gfx942  gfx942 304   2100 4096   256 6000 256 =    =    AMD Instinct MI325X
mi355x             gfx950  gfx950 256   2400 4096   256 8000 288 =    =    AMD Instinct MI355X; AMD Instinct MI355 OAM
mi350x             gfx950  gfx950 256   2200 4096   256 8000 288 =    =    AMD Instinct MI350X
rx-6600            gfx1032 navi23 28    2491 2048   32  224  8   =    =    AMD Radeon RX 6600
rx-6600-xt         gfx1032 navi23 32    2589 2048   32  256  8   =    =    AMD Radeon RX 6600 XT
rx-6700-xt         gfx1031 navi22 40    2581 3072   96  384  12  =    =    AMD Radeon RX 6700 XT
rx-6800            gfx1030 navi21 60    2105 4096   128 512  16  =    =    AMD Radeon RX 6800
rx-6800-xt         gfx1030 navi21 72    2250 4096   128 512  16  =    =    AMD Radeon RX 6800 XT
rx-6900-xt         gfx1030 navi21 80    2250 4096   128 512  16  =    =    AMD Radeon RX 6900 XT
w6600              gfx1032 navi23 28    2903 2048   32  224  8   =    =    AMD Radeon PRO W6600
w6800              gfx1030 navi21 60    2320 4096   128 512  32  =    =    AMD Radeon PRO W6800
rx-7600            gfx1102 navi33 32    2655 2048   32  288  8   =    =    AMD Radeon RX 7600
rx-7800-xt         gfx1101 navi32 60    2430 4096   64  624  16  =    =    AMD Radeon RX 7800 XT
rx-7900-gre        gfx1100 navi31 80    2245 6144   64  576  16  =    =    AMD Radeon RX 7900 GRE
rx-7900-xt         gfx1100 navi31 84    2394 6144   80  800  20  =    =    AMD Radeon RX 7900 XT
rx-7900-xtx        gfx1100 navi31 96    2498 6144   96  960  24  =    =    AMD Radeon RX 7900 XTX
w7800              gfx1100 navi31 70    2499 6144   64  576  32  =    =    AMD Radeon PRO W7800
w7900              gfx1100 navi31 96    2495 6144   96  864  48  =    =    AMD Radeon PRO W7900
rx-9060-xt         gfx1200 navi44 32    3130 4096   32  320  16  =    =    AMD Radeon RX 9060 XT
rx-9070            gfx1201 navi48 56    2520 8192   64  640  16  =    =    AMD Radeon RX 9070
rx-9070-xt         gfx1201 navi48 64    2970 8192   64  640  16  =    =    AMD Radeon RX 9070 XT
"""
