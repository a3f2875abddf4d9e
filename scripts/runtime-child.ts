/** Runs the Worker on the local runtime, see `serveWorkers`. */
import { builtWorker, serveWorkers } from "./runtime-server.ts";

serveWorkers(({ builtDir, bindings, trustedCas }) => [builtWorker(builtDir, bindings, trustedCas)]);
