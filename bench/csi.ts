/** Cost of CSI volumes: against direct plugin calls, many at once, many at the provider, and many in the service. */
import { Connection, wire } from "./connection.ts";
import { type CsiPlugin, PLUGIN } from "./csi-plugin.ts";
import { type GrowthRow, inTurns, type Row, type Slice, sliceOf } from "./rounds.ts";
import { ownCpu, quantiles } from "./statistics.ts";
import { type ClusterService, fillCsi, ONE_IN, volumeOf } from "./volumes-sides.ts";

export interface CsiScale {
  readonly rounds: number;
  readonly sliceMs: number;
  /** Concurrent creations. */
  readonly atOnce: number;
  /** Volumes at the provider, and to a page of them. */
  readonly external: number;
  readonly page: number;
  /** Volumes of the services that are held against one with the first number. */
  readonly sizes: readonly [number, ...number[]];
}

export interface CsiResults {
  /** By the service against calls of the driver. */
  readonly overhead: readonly Row[];
  /** A service with many volumes against one with few. */
  readonly growth: readonly GrowthRow[];
}

export const CSI_AIM = { growth: 1.3 } as const;

const LIST_PAGE = 100;
const READ_BY_ID = 500;
const WARM_UP = 10;
const NODE = "c5100000-b1b1-4b1b-8b1b-b1b1b1b1b1b1";

/** One of the two ways to a volume. */
interface Way {
  create(name: string): Promise<string>;
  remove(made: string): Promise<void>;
  /** One page of external volumes. @returns the next token */
  page(size: number, token: string): Promise<string>;
  /** CPU seconds of the service, if it is used. */
  cpu(): number | null;
}

export class CsiBench {
  readonly #plugin: CsiPlugin;
  readonly #service: ClusterService;
  readonly #filled: (rows: number) => Promise<ClusterService>;
  readonly #scale: CsiScale;
  readonly #note: (text: string) => void;
  #made = 0;

  /** @param parts `service` has the plugin on a separate node; `filled` starts another service */
  constructor(
    parts: { plugin: CsiPlugin; service: ClusterService; filled: (rows: number) => Promise<ClusterService> },
    scale: CsiScale,
    note: (text: string) => void,
  ) {
    this.#plugin = parts.plugin;
    this.#service = parts.service;
    this.#filled = parts.filled;
    this.#scale = scale;
    this.#note = note;
  }

  async run(): Promise<CsiResults> {
    return { overhead: await this.#overhead(), growth: await this.#growth() };
  }

  // ---- against direct plugin calls ----

  async #overhead(): Promise<Row[]> {
    const ways = [await this.#byService(), this.#byPlugin()] as const;
    const rows: Row[] = [];
    const made = new Map<Way, string[]>(ways.map((way) => [way, []]));
    const compare = async (name: string, slice: (way: Way) => Promise<Slice>) => {
      this.#note(name);
      rows.push(
        await inTurns(
          name,
          this.#scale.rounds,
          () => slice(ways[0]),
          () => slice(ways[1]),
        ),
      );
    };
    for (const way of ways)
      for (let number = 0; number < WARM_UP; number++) await way.remove(await way.create(this.#name()));

    await compare("a volume made", (way) =>
      this.#timed(way, async (took) => {
        for (const until = performance.now() + this.#scale.sliceMs; performance.now() < until; )
          await took(async () => made.get(way)?.push(await way.create(this.#name())));
      }),
    );
    const each = new Map(ways.map((way) => [way, Math.ceil((made.get(way)?.length ?? 0) / this.#scale.rounds)]));
    await compare("a volume deleted", (way) =>
      this.#timed(way, async (took) => {
        for (const id of made.get(way)?.splice(0, each.get(way)) ?? []) await took(() => way.remove(id));
      }),
    );
    this.#note(`${this.#scale.external} volumes at the provider`);
    this.#plugin.fill(this.#scale.external);
    await compare(`a page of ${this.#scale.page} of ${this.#scale.external} at the provider`, (way) =>
      this.#timed(way, async (took) => {
        let token = "";
        do {
          await took(async () => {
            token = await way.page(this.#scale.page, token);
          });
        } while (token !== "");
      }),
    );
    await compare(`${this.#scale.atOnce} volumes made at once`, (way) =>
      this.#timed(way, async (took) => {
        const names = Array.from({ length: this.#scale.atOnce }, () => this.#name());
        await Promise.all(names.map((name) => took(() => way.create(name))));
      }),
    );
    return rows;
  }

  #name(): string {
    return `bench-${this.#made++}`;
  }

  async #timed({ cpu }: Way, work: (took: (each: () => Promise<unknown>) => Promise<void>) => Promise<void>) {
    const times: number[] = [];
    const [before, own] = [cpu(), process.cpuUsage()];
    const began = performance.now();
    await work(async (each) => {
      const sent = performance.now();
      await each();
      times.push(performance.now() - sent);
    });
    const seconds = (performance.now() - began) / 1000;
    const at = quantiles(times);
    const slice = { count: times.length, seconds, own: ownCpu(own), p50: at(0.5), p99: at(0.99) };
    return sliceOf(slice, before, cpu());
  }

  async #byService(): Promise<Way> {
    const { server, root } = this.#service;
    const idle: Connection[] = [];
    const ask = async (method: string, path: string, body?: object) => {
      const connection = idle.pop() ?? (await Connection.open(server.port));
      const answer = await connection.ask(wire(method, path, root, body && JSON.stringify(body)));
      idle.push(connection);
      return answer;
    };
    return {
      create: async (name) => {
        await ask("PUT", `/v1/volume/csi/${name}/create`, definition(name));
        return name;
      },
      remove: async (name) => void (await ask("DELETE", `/v1/volume/csi/${name}/delete`)),
      page: async (size, token) => {
        const query = `plugin_id=${PLUGIN}&per_page=${size}&next_token=${encodeURIComponent(token)}`;
        return (JSON.parse(String(await ask("GET", `/v1/volumes/external?${query}`))) as { NextToken: string })
          .NextToken;
      },
      cpu: () => server.cpu(),
    };
  }

  #byPlugin(): Way {
    const plugin = this.#plugin;
    return {
      create: (name) => plugin.create(name),
      remove: async (volumeId) => void (await plugin.call("DeleteVolume", { volumeId })),
      page: async (maxEntries, startingToken) =>
        (await plugin.call("ListVolumes", { maxEntries, startingToken })).nextToken,
      cpu: () => null,
    };
  }

  // ---- many volumes in the service ----

  async #growth(): Promise<GrowthRow[]> {
    const [few, ...sizes] = this.#scale.sizes;
    const small = await this.#withRows(few);
    const rows: GrowthRow[] = [];
    for (const size of sizes) {
      const large = await this.#withRows(size);
      for (const [name, asked] of Object.entries(ASKED)) {
        this.#note(`${name}: ${size} volumes against ${few}`);
        const slice = (service: ClusterService, count: number) => () => this.#slice(service, () => asked(count));
        const both = [slice(large, size), slice(small, few)] as const;
        for (const warm of both) await warm();
        const row = await inTurns(`${name}, ${size} volumes`, this.#scale.rounds, ...both, CSI_AIM.growth);
        rows.push({ ...row, thing: name, size, least: few });
      }
      large.server.stop();
    }
    return rows;
  }

  async #withRows(rows: number): Promise<ClusterService> {
    this.#note(`making ${rows} volumes`);
    const service = await this.#filled(rows);
    await fillCsi(service, rows, NODE);
    return service;
  }

  async #slice({ server, root }: ClusterService, next: () => Asked): Promise<Slice> {
    const connection = await Connection.open(server.port);
    const way = { cpu: () => server.cpu() } as Way;
    const slice = await this.#timed(way, async (took) => {
      for (const until = performance.now() + this.#scale.sliceMs; performance.now() < until; ) {
        const requests = next().map(({ method, path, body }) => wire(method, path, root, body && JSON.stringify(body)));
        await took(async () => {
          for (const request of requests) await connection.ask(request);
        });
      }
    });
    connection.close();
    return slice;
  }
}

const definition = (name: string) => ({
  ID: name,
  Name: name,
  PluginID: PLUGIN,
  RequestedCapabilities: [{ AccessMode: "single-node-writer", AttachmentMode: "file-system" }],
});

type Asked = readonly { readonly method: string; readonly path: string; readonly body?: object }[];

const get = (path: string): Asked => [{ method: "GET", path }];
const list = (more: string): Asked => get(`/v1/volumes?type=csi&per_page=${LIST_PAGE}${more}`);
const pathOf = (number: number): string => `/v1/volume/csi/${encodeURIComponent(volumeOf(number))}`;
let claimed = 0;

/** Requests by number of volumes. */
const ASKED: Readonly<Record<string, (rows: number) => Asked>> = {
  "a volume": (rows) => get(pathOf(Math.floor((Math.floor(Math.random() * READ_BY_ID) * rows) / READ_BY_ID))),
  "a page": () => list(""),
  "a page from the middle": (rows) => list(`&next_token=${encodeURIComponent(`default.${volumeOf(rows / 2)}`)}`),
  [`a page of 1 in ${ONE_IN}`]: () => list(`&filter=${encodeURIComponent('Name matches "-one-in$"')}`),
  "claims of a volume": (rows) => get(`${pathOf(Math.floor(rows / 2 / ONE_IN) * ONE_IN)}/claims`),
  "a claim taken and given back": (rows) => {
    const number = claimed++;
    // Of an unclaimed volume.
    const index = (number * ONE_IN + 1) % rows;
    const allocation = (ClientStatus: string) => ({
      Topic: "Allocation",
      Type: "AllocationUpdated",
      Payload: {
        Allocation: {
          ID: `c5100000-0000-4000-8000-${String(number).padStart(12, "0")}`,
          Name: `db.main[${volumeOf(index).slice(4, -1)}]`,
          JobID: "db",
          TaskGroup: "main",
          NodeID: NODE,
          ClientStatus,
        },
      },
    });
    const report = (status: string) => ({ method: "PUT", path: "/v1/cluster/objects", body: allocation(status) });
    return [report("running"), report("complete")];
  },
};
