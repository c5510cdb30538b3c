"""The DAG that ``benchmarks.dependencies.airflow`` has Airflow read: the graph of the environment."""

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG

from benchmarks.dependencies.graphs import graph, run
from benchmarks.dependencies.system import GRAPH
from benchmarks.peers.ordinary import SLOTS

kind, count = GRAPH.split()
nodes = list(graph(kind, int(count)))  # type: ignore[arg-type]

with DAG("bench", schedule=None, max_active_tasks=SLOTS):
    operators = {
        node.name: PythonOperator(task_id=node.name, python_callable=run, op_args=[node.name]) for node in nodes
    }
    for node in nodes:
        for parent in node.parents:
            operators[parent] >> operators[node.name]
