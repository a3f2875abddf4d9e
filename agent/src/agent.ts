import type { KeyObject } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import {
  type Fp,
  frameBytes,
  type Hello,
  MAX_FRAME_BYTES,
  METHODS,
  PROTOCOL,
  type Report,
  type ServiceFrame,
  VOLUME_CHANGES,
  type Vols,
  type Welcome,
} from "@sallyport/agent-protocol";
import { BOOT_ID } from "./boot.ts";
import type { Csi } from "./csi/index.ts";
import type { HostVolumes } from "./dhv/index.ts";
import { EXIT, type ExitCode } from "./exit.ts";
import { connectToken, type Node } from "./identity.ts";
import type { LiveConfig, Settings } from "./live-config.ts";
import { error, info, textOf, warn } from "./log.ts";
import { type Family, family, Monitor, processFamilies } from "./monitor.ts";
import { handlersOf } from "./ops/handlers.ts";
import type { Journal } from "./ops/journal.ts";
import { Operations } from "./ops/operations.ts";
import { changesOf, inFrames, type SentReport, wholeMapsOf, within } from "./report/changes.ts";
import { Reporter } from "./report/reporter.ts";
import { SharedReport } from "./report/shared-report.ts";
import { Connection } from "./session/connection.ts";
import { type ConnectionEnd, type Pauses, Reconnect } from "./session/reconnect.ts";
import { recordUnknown } from "./unknown-volumes.ts";
import { VERSION } from "./version.ts";

export interface AgentOptions {
  readonly live: LiveConfig;
  readonly key: KeyObject;
  readonly node: Node;
  readonly epoch: number;
  readonly journal: Journal;
  readonly hostVolumes: HostVolumes;
  readonly csi: Csi;
  readonly stop: AbortSignal;
  readonly pauses: Pauses;
  readonly onWelcome?: ((welcome: Welcome) => void) | undefined;
}

/** Deadline of the first inspection of volumes and plugins before the agent connects without it. */
const PREPARE_MS = 3_000;
/** Grace time for operations at shutdown; interrupted ones run again at the next start. */
const STOP_MS = 10_000;
/** Smaller clock differences are not logged. */
const NOTABLE_SKEW_MS = 5_000;

interface Session {
  readonly connection: Connection;
  /** The report the service has; undefined before `hello`. */
  sent?: SentReport;
  welcomed: boolean;
  /** Whether the service accepts volume changes instead of whole maps. */
  takesChanges: boolean;
  /** The number of report changes sent. */
  seq: number;
  fingerprint?: NodeJS.Timeout;
}

/** The agent of a joined node. Owns the current session; operations outlive sessions. Read by main only. */
export class Agent {
  readonly #options: AgentOptions;
  readonly #reporter: Reporter;
  readonly #operations: Operations;
  readonly #monitor: Monitor;
  #session: Session | undefined;
  #restoring = false;
  /** Offset of the service's clock from the local clock. */
  #skewMs = 0;
  #connections = 0;

  constructor(options: AgentOptions) {
    this.#options = options;
    this.#reporter = new Reporter(options.live.current.config, options.hostVolumes, options.csi);
    this.#operations = new Operations({
      journal: options.journal,
      handlers: handlersOf(options.hostVolumes, options.csi, () => this.#reporter.inspect()),
      send: (frame) => this.#session?.connection.send(frame),
      onEnded: () => report.ended(),
    });
    const report = new SharedReport(
      async () => this.#tell(await this.#reporter.inspectVolumes()),
      () => this.#operations.inFlight,
    );
    options.csi.onChange = () => this.#tellVolumes();
    options.live.onChange = (now, before) => this.#reconfigure(now, before);
    this.#monitor = new Monitor({
      problem: () => (this.#session?.welcomed ? undefined : "not connected to the service"),
      families: () => this.#families(),
    });
  }

  async run(): Promise<ExitCode> {
    const { stop, pauses, journal, csi } = this.#options;
    const reconnect = new Reconnect(pauses);
    this.#monitor.listen(this.#options.live.current.config.monitorAddress);
    let code: ExitCode = EXIT.stopped;
    // A hanging plugin must not delay the connection; its report follows later.
    await Promise.race([this.#prepare(), sleep(PREPARE_MS, undefined, { ref: false })]);
    while (!stop.aborted) {
      const end = await this.#connect();
      if (stop.aborted) break;
      const next = reconnect.after(end);
      if (next.type === "exit") {
        error("agent_ends", { because: next.because, code: next.code });
        code = next.code;
        break;
      }
      warn("disconnected", { ...wordsOf(end), retryMs: next.ms });
      await sleep(next.ms, undefined, { signal: stop }).catch(() => {});
    }
    await Promise.race([this.#operations.stop(), sleep(STOP_MS, undefined, { ref: false })]);
    csi.stop();
    this.#monitor.close();
    await journal.close();
    return code;
  }

  /** Runs concurrently: plugins and CSI drivers do not wait for a volume whose plugin hangs. */
  async #prepare(): Promise<void> {
    const inspected = this.#reporter
      .inspect()
      .then((report) => this.#tell(report))
      .catch(reportFailed);
    await Promise.all([this.#restore(), inspected]);
  }

  async #connect(): Promise<ConnectionEnd> {
    const { live, key, node, stop } = this.#options;
    const { config, transport } = live.current;
    const token = await connectToken(key, node, this.#skewMs);
    const connection = new Connection({
      service: config.service,
      transport,
      token,
      hello: () => this.#hello(session),
      onWelcome: (welcome) => this.#welcome(session, welcome),
      onFrame: (frame) => this.#receive(frame),
      onMalformed: (op, message) => this.#operations.reject(op, message),
      onServiceTime: (time) => this.#compareClocks(time),
    });
    const session: Session = { connection, welcomed: false, takesChanges: false, seq: 0 };
    this.#session = session;
    const close = () => connection.close();
    stop.addEventListener("abort", close);
    if (stop.aborted) close();
    try {
      return await connection.ended;
    } finally {
      stop.removeEventListener("abort", close);
      clearTimeout(session.fingerprint);
      this.#session = undefined;
    }
  }

  async #hello(session: Session): Promise<Hello> {
    const report = await this.#reporter.inspectVolumes();
    const rest: Omit<Hello, keyof SentReport> = {
      t: "hello",
      proto: [...PROTOCOL],
      agent: VERSION,
      boot: BOOT_ID,
      epoch: this.#options.epoch,
      journal: this.#options.journal
        .entries()
        .map(({ op, gen, ended }) => ({ op, gen, state: ended ? "finished" : "running" })),
      features: Object.keys(METHODS),
    };
    session.sent = within(MAX_FRAME_BYTES - frameBytes(JSON.stringify(rest)), report);
    return { ...rest, ...session.sent };
  }

  #welcome(session: Session, welcome: Welcome): void {
    session.welcomed = true;
    this.#connections++;
    session.takesChanges = welcome.features?.includes(VOLUME_CHANGES) ?? false;
    info("connected", { session: welcome.session, proto: welcome.proto });
    this.#compareClocks(welcome.serverTime);
    for (const volume of welcome.unknownVolumes) warn("volume_unknown_to_service", { volume });
    recordUnknown(this.#options.live.current.config.stateDir, welcome.unknownVolumes).catch(reportFailed);
    this.#operations.welcome(welcome);
    this.#lookLater(session, welcome.cfg.fingerprintMs);
    // Sends changes since `hello`.
    this.#tellVolumes();
    this.#options.onWelcome?.(welcome);
  }

  #receive(frame: Exclude<ServiceFrame, Welcome>): void {
    if (frame.t === "req") this.#operations.receive(frame);
    else if (frame.t === "done") this.#operations.done(frame.op);
    else this.#operations.cancel(frame.op);
  }

  #lookLater(session: Session, everyMs: number): void {
    session.fingerprint = setTimeout(
      async () => {
        const report = await this.#reporter.inspect().catch(reportFailed);
        if (report) this.#tell(report);
        if (report && report.unavailableVolumes.length > 0) void this.#restore();
        if (this.#session === session) this.#lookLater(session, everyMs);
      },
      everyMs * (0.8 + 0.4 * Math.random()),
    );
  }

  /** Applies changed settings. Operations complete with those they began with; claims and mounts stay. */
  #reconfigure({ config, transport }: Settings, before: Settings): void {
    const { hostVolumes, csi } = this.#options;
    const { pluginDir, plugins, registerRoots } = config.hostVolumes;
    hostVolumes.configure({ pluginDir, allowed: plugins, registerRoots });
    csi.configure(config.csi.plugins);
    this.#reporter.configure(config);
    this.#monitor.listen(config.monitorAddress);
    if (!isDeepStrictEqual(transport, before.transport)) this.#session?.connection.close("the agent reconnects");
    void this.#prepare();
  }

  #families(): Family[] {
    const { live, csi, node } = this.#options;
    const { results, inFlight } = this.#operations;
    const report = this.#reporter.last;
    const usable = Object.keys(report?.node.HostVolumes ?? {}).length;
    const unusable = report?.unavailableVolumes.length ?? 0;
    const by = (label: string, counts: Readonly<Record<string, number>>) =>
      Object.entries(counts).map(([value, count]) => [{ [label]: value }, count] as const);
    const usage = (of: "usedBytes" | "totalBytes") =>
      [...csi.volumes].flatMap(([plugin, volumes]) =>
        volumes.usage.map((each) => [{ plugin, volume: each.externalId }, each[of]] as const),
      );
    const health = Object.fromEntries([...csi.health].map(([id, healthy]) => [id, Number(healthy)]));
    return [
      family("info", "gauge", "Version and node of the agent", [[{ version: VERSION, node: node.nodeId }, 1]]),
      family("connected", "gauge", "1 while the service is connected", [
        [{}, Number(this.#session?.welcomed ?? false)],
      ]),
      family("connections_total", "counter", "Connections to the service", [[{}, this.#connections]]),
      family("config_reloads_total", "counter", "Reloads of the configuration", by("result", { ...live.reloads })),
      family("operations_total", "counter", "Completed operations", by("result", { ...results })),
      family("operations_in_flight", "gauge", "Queued and running operations", [[{}, inFlight]]),
      family("csi_plugin_healthy", "gauge", "1 while the CSI plugin answers", by("plugin", health)),
      family("csi_volume_problems", "gauge", "Published CSI volumes that cannot be used", [
        ...[...csi.volumes].map(([plugin, { problems }]) => [{ plugin }, problems.length] as const),
      ]),
      family("csi_volume_used_bytes", "gauge", "Used bytes of published CSI volumes", usage("usedBytes")),
      family("csi_volume_total_bytes", "gauge", "Size of published CSI volumes", usage("totalBytes")),
      family("host_volumes", "gauge", "Host volumes of this node", by("state", { usable, unusable })),
      ...processFamilies(),
    ];
  }

  /** Restores volumes whose plugin was unavailable. */
  async #restore(): Promise<void> {
    if (this.#restoring) return;
    this.#restoring = true;
    try {
      await this.#options.hostVolumes.restore();
      this.#tell(await this.#reporter.inspectVolumes());
    } catch (failure) {
      reportFailed(failure);
    } finally {
      this.#restoring = false;
    }
  }

  #tellVolumes(): void {
    void this.#reporter
      .inspectVolumes()
      .then((report) => this.#tell(report))
      .catch(reportFailed);
  }

  #tell(report: Report): void {
    const session = this.#session;
    if (!session?.welcomed || !session.sent) return;
    const { sent, connection } = session;
    session.sent = report;
    const tell = (frame: Omit<Fp, "seq"> | Omit<Vols, "seq">) => connection.send({ ...frame, seq: ++session.seq });
    if (session.takesChanges) {
      const { node, volumes } = changesOf(sent, report);
      if (node) tell({ t: "fp", node });
      for (const part of volumes ? inFrames(volumes) : []) tell({ t: "vols", ...part });
    } else {
      const change = wholeMapsOf(sent, report);
      if (change) tell({ t: "fp", ...change });
    }
  }

  #compareClocks(serverTime: number): void {
    const skewMs = serverTime - Date.now();
    const notable = Math.abs(skewMs) >= NOTABLE_SKEW_MS;
    this.#skewMs = notable ? skewMs : 0;
    if (!notable) return;
    const seconds = Math.round(Math.abs(skewMs) / 1000);
    const message = `this machine's clock is ${seconds} s ${skewMs > 0 ? "behind" : "ahead of"} the service's: set it right`;
    warn("clock_differs", { message });
  }
}

const reportFailed = (failure: unknown) => error("report_failed", { message: textOf(failure) });

const wordsOf = (end: ConnectionEnd) =>
  end.type === "closed"
    ? { how: end.type, code: end.code, reason: end.reason }
    : { ...end, type: undefined, how: end.type };
