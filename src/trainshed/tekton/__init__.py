"""Tekton pipelines, as decisions: what a PipelineRun, a TaskRun or our own CustomRun needs next. Pure.

    pipelinerun    a run's tasks: which may start, which are skipped, how the run stands
    pipelinetasks  the tasks of a pipeline as a graph
    ahead          tasks whose pods start before their turn, and wait for it
    tasksof        what a task becomes when it starts: TaskRuns and CustomRuns
    taskrun        a task's pod: made, watched, tried again
    taskpod        a task's steps as containers of one pod
    steps          what a pod's containers say about the steps
    customrun      a distributed step: the job that it owns
    variables      `$(params.x)` and its kin
    params         parameters: declared, given, defaults
    workspaces     workspaces as volumes
    whens          `when` expressions
    matrix         one task, many sets of parameters
    versions       v1beta1 as v1, and back
    conditions     the condition `Succeeded`
    resources      names of the resources, labels and children
    crds           the CustomResourceDefinitions, in Tekton's shape

Facts are those of Tekton's API reference (tekton.dev/docs/pipelines) and of its own example files.
"""
