#!/bin/sh
# Stands in for the images that bring kubectl to the launcher of an MPI job: puts this machine's kubectl into
# $TARGET_DIR, and waits until every host of the job can be reached.
kubectl=$(command -v kubectl) || {
    echo "kubectl is not installed on this machine; the launcher starts processes in its workers with it" >&2
    exit 1
}
cp -L "$kubectl" "$TARGET_DIR/kubectl" && chmod 755 "$TARGET_DIR/kubectl" || exit 1
while read -r pod _; do
    [ "$pod" != "$(hostname)" ] || continue
    until [ "$("$kubectl" get pod "$pod" -n "$NAMESPACE" -o 'jsonpath={.status.phase}')" = Running ]; do
        echo "waiting for $pod"
        sleep 1
    done
done </etc/mpi/hostfile
