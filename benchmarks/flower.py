"""Flower's SecAgg+ played in one process: ``python flower.py [--probe] [--most N] SITES,NUMBERS,DROPPED ...``.

Stands alone, because flwr 1.42 needs protobuf below 7 and cohortsum needs 7 or newer: it runs under an interpreter of its
own. Real clients (`secaggplus_mod`) and the real server workflow meet at a stand-in for the grid that calls the clients
one after another. Prints one JSON line per cell with processor times in milliseconds: the median client over all four
steps, its masking step, and the server without its clients. Exit code 3: flwr is not installed.
"""

# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
# flwr is looked for when this runs, never where the types are checked.

import argparse
import json
import logging
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterable
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

NOT_INSTALLED = 3
WEIGHT, MOST_WEIGHT = 100, 1000.0
VALUE = 0.5
CLIP, LEVELS = 8.0, 2**22
MASK_STAGE = "collect_masked_vectors"
SKIPPED: dict[str, float | None] = {"client": None, "mask": None, "server": None}
"""Many sites with dropouts: up to there a client does the same as without, and the server is not played."""


def play(sites: int, numbers: int, dropped: int, server: bool) -> dict[str, float | None]:
    """Return the processor times of one aggregation in which the last ``dropped`` clients vanish after sharing keys."""
    import numpy as np
    from flwr.app import Context, RecordDict
    from flwr.app.message_type import MessageType
    from flwr.client.mod.secure_aggregation.secaggplus_mod import secaggplus_mod
    from flwr.common import (
        Code,
        FitIns,
        FitRes,
        Message,
        Parameters,
        Status,
        ndarrays_to_parameters,
        parameters_to_ndarrays,
    )
    from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key
    from flwr.compat.common import recorddict_compat as compat
    from flwr.server.compat.legacy_context import LegacyContext
    from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD
    from flwr.server.workflow.constant import Key as WorkflowKey
    from flwr.server.workflow.secure_aggregation.secaggplus_workflow import SecAggPlusWorkflow, WorkflowState
    from flwr.supercore.task_identity import TaskIdentity

    TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = 1  # as flwr's own runtime sets them
    gone = set(range(sites - dropped + 1, sites + 1))
    client_ms: dict[int, dict[str, float]] = defaultdict(dict)
    grid_ms = [0.0]
    opened: list[Any] = []

    def context(node: int) -> Any:
        return Context(run_id=1, node_id=node, node_config={}, state=RecordDict({}), run_config={})

    contexts = {node: context(node) for node in range(1, sites + 1)}
    vector = np.full(numbers, VALUE, dtype=np.float32)

    def fit(message: Any, _: Any) -> Any:
        answer = FitRes(Status(Code.OK, ""), ndarrays_to_parameters([vector]), WEIGHT, {})
        return Message(compat.fitres_to_recorddict(answer, False), reply_to=message)

    class Line:
        """The grid: every client answers at once, in this thread."""

        def send_and_receive(self, messages: Iterable[Any], **_: Any) -> list[Any]:
            start = time.process_time()
            replies = [reply for message in messages if (reply := self._answer(message)) is not None]
            grid_ms[0] += (time.process_time() - start) * 1000
            return replies

        def _answer(self, message: Any) -> Any:
            node = message.metadata.dst_node_id
            stage = message.content.config_records[RECORD_KEY_CONFIGS][Key.STAGE]
            if node in gone and stage == MASK_STAGE:
                return None
            fitting = [0.0]

            def fit_apart(asked: Any, own: Any) -> Any:
                start = time.process_time()
                answer = fit(asked, own)
                fitting[0] = time.process_time() - start
                return answer

            copied = Message(
                RecordDict(
                    {
                        name: type(record)(dict(record))
                        for name, record in message.content.config_records.items()
                    }
                ),
                dst_node_id=node,
                message_type=MessageType.TRAIN,
            )
            start = time.process_time()
            reply = secaggplus_mod(copied, contexts[node], fit_apart)
            client_ms[node][stage] = (time.process_time() - start - fitting[0]) * 1000
            return reply

    class Strategy:
        """Selects everybody, and keeps the aggregate instead of training with it."""

        def configure_fit(self, *_: Any) -> list[Any]:
            return [(Proxy(node), FitIns(Parameters([], ""), {})) for node in contexts]

        def aggregate_fit(self, _: int, results: list[Any], __: Any) -> tuple[None, dict[str, Any]]:
            opened.extend(parameters_to_ndarrays(results[0][1].parameters))
            return None, {}

    class Proxy:
        """Names a client."""

        def __init__(self, node: int) -> None:
            self.node_id = node

    held = LegacyContext(context(0), strategy=Strategy())
    held.state.config_records[MAIN_CONFIGS_RECORD] = _config({WorkflowKey.CURRENT_ROUND: 1})
    held.state.array_records[MAIN_PARAMS_RECORD] = compat.parameters_to_arrayrecord(
        ndarrays_to_parameters([np.zeros(1, dtype=np.float32)]), False
    )
    workflow = SecAggPlusWorkflow(
        sites, 2 * sites // 3 + 1, clipping_range=CLIP, quantization_range=LEVELS, max_weight=MOST_WEIGHT
    )
    state = WorkflowState()
    stages = [workflow.setup_stage, workflow.share_keys_stage, workflow.collect_masked_vectors_stage]
    start = time.process_time()
    for stage in [*stages, workflow.unmask_stage] if server else stages:
        assert stage(Line(), held, state), "Flower halted the aggregation"
    server_ms = (time.process_time() - start) * 1000 - grid_ms[0]
    if server:
        step = (
            2 * CLIP / LEVELS * MOST_WEIGHT / WEIGHT
        )  # quantisation, magnified by the weight it is divided by
        assert np.allclose(opened[0], VALUE, atol=step), "Flower opened another mean"
    alive = [times for node, times in client_ms.items() if node not in gone]
    return {
        "client": statistics.median(sum(times.values()) for times in alive),
        "mask": statistics.median(times[MASK_STAGE] for times in alive),
        "server": server_ms if server else None,
    }


def _config(values: dict[str, Any]) -> Any:
    from flwr.app import ConfigRecord

    return ConfigRecord(values)


def main() -> int:
    """Play every cell of the command line."""
    parser = argparse.ArgumentParser(description="Time Flower's SecAgg+.")
    parser.add_argument("--probe", action="store_true", help="only say which flwr this is")
    parser.add_argument("--most", type=int, default=50, help="above so many sites only clients play")
    parser.add_argument("cells", nargs="*", metavar="SITES,NUMBERS,DROPPED")
    asked = parser.parse_args()
    if find_spec("flwr") is None:
        return NOT_INSTALLED
    if asked.probe:
        print(f"flwr {version('flwr')}")
    logging.disable(logging.WARNING)
    for cell in asked.cells:
        sites, numbers, dropped = (int(number) for number in cell.split(","))
        many = sites > asked.most
        figures = SKIPPED if many and dropped else play(sites, numbers, dropped, not many)
        print(json.dumps(figures), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
