"""The words that some fields of a trial choose from. Importing this imports no library."""

from typing import Literal

Mode = Literal["train", "infer"]
Precision = Literal["fp32", "bf16", "fp16", "tf32"]
Layout = Literal["auto", "nchw", "nhwc"]
Switch = Literal["auto", "on", "off"]
Kernels = Literal["native", "tuned"]
Feed = Literal["batch", "fit"]
OptimiserKind = Literal["sgd", "adam"]
LarcMode = Literal["clip", "scale"]
Rung = Literal["source", "bytes", "decoded", "host", "device"]
Loader = Literal["own", "native"]
Decoder = Literal["auto", "native", "simplejpeg"]
Crop = Literal["auto", "nvcnn", "inception", "torch", "pad", "whole"]
View = Literal["auto", "squash", "centre", "centre-1.145", "whole"]
Resize = Literal["plain", "antialiased"]
Colour = Literal["off", "folded", "exact"]
OnBad = Literal["error", "skip"]
Scaling = Literal["weak", "strong"]
Exchange = Literal["default", "independent", "horovod"]
Compress = Literal["none", "bf16"]
Processes = Literal["device", "host"]
