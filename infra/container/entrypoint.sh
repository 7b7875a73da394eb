#!/usr/bin/env bash
# What Spark on Kubernetes asks of an image: `driver ARGS...` and `executor`; anything else is a command.
# The pip package of Spark has the jars for Kubernetes, but no entrypoint. Spark sets the SPARK_ variables named here.
set -euo pipefail

case "${1:-}" in
  driver)
    shift
    set -- "$SPARK_HOME/bin/spark-submit" --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" --deploy-mode client "$@"
    ;;
  executor)
    options=()
    for ((n = 0; ; n++)); do # spark.executor.extraJavaOptions and settings that an executor needs before it has asked the driver
      name=SPARK_JAVA_OPT_$n
      [ -n "${!name+set}" ] || break
      options+=("${!name}")
    done
    set -- "$JAVA_HOME/bin/java" "${options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
      -cp "${SPARK_CONF_DIR:-$SPARK_HOME/conf}:${SPARK_EXTRA_CLASSPATH:+$SPARK_EXTRA_CLASSPATH:}$SPARK_HOME/jars/*" \
      org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
      --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
      --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
      --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
    ;;
esac
# tini reaps Python workers that have ended; -g: SIGTERM reaches Java and Python, so that the stage can mark itself failed
exec tini -s -g -- "$@"
