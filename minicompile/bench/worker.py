"""A process that runs rows of the benchmark, and is replaced when a row has broken it.

Goes in: a function of a module and its arguments.  Comes out: the row that it returns, whatever happens: an
illegal access on a GPU spoils the process that did it for good, a crash ends it, and a hang would end the whole run.
"""

import multiprocessing
import warnings

BROKEN = ("CUDA error", "AcceleratorError", "CUBLAS_STATUS", "CUDNN_STATUS", "out of memory")


def quiet():
    """Advice about configurations and kernels would stand between the bars."""
    warnings.filterwarnings("ignore", module="torch|transformers")
    try:
        from transformers.utils import logging
    except ModuleNotFoundError:
        return
    logging.set_verbosity_error()


def serve(pipe, prepare):
    prepare()
    pipe.send("ready")
    while job := pipe.recv():
        function, arguments = job
        pipe.send(function(*arguments))


class Worker:
    """`limit`: seconds for one row; `prepare` is called in every new process."""

    def __init__(self, prepare, limit=600):
        self.prepare, self.limit, self.process = prepare, limit, None

    def start(self):
        if self.process is not None:
            return
        context = multiprocessing.get_context("spawn")  # CUDA does not survive a fork
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=serve, args=(other, self.prepare), daemon=True)
        self.process.start()
        other.close()
        self.pipe.recv()  # imports are done: they do not count against the limit

    def run(self, function, *arguments, **names):
        """The row `function(*arguments)`; if there is none, one with `names` and the reason."""
        self.start()
        row = {**names, "correct": "error", "traceback": ""}
        try:
            self.pipe.send((function, arguments))
            answered = self.pipe.poll(self.limit)
            row = self.pipe.recv() if answered else {**row, "note": f"no result in {self.limit} s"}
        except (EOFError, ConnectionError):
            self.process.join()
            answered, row["note"] = False, f"the process ended with exit code {self.process.exitcode}"
        if not answered or any(text in row["note"] + row.get("traceback", "") for text in BROKEN):
            self.stop(gently=False)
        return row

    def stop(self, gently=True):
        if self.process is not None:
            if gently:
                self.pipe.send(None)
                self.process.join(10)
            self.process.kill()
            self.process.join()
            self.process = None
