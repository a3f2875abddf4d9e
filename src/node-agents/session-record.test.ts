import type { Hello, ReportedHostVolume } from "@sallyport/agent-protocol";
import { expect, it } from "vitest";
import { memorySql } from "../../test/memory-sql.ts";
import type { Link } from "./link.ts";
import { sessionMigrations } from "./schema.ts";
import { SessionRecord } from "./session-record.ts";

const volume = (path: string) => ({ ID: "v", Name: "data", Path: path }) as unknown as ReportedHostVolume;
const usable = (path: string) => ({ usable: [volume(path)], unavailable: [], gone: [] });

it("reports a volume to the registry again only after a change", () => {
  const record = new SessionRecord(memorySql(sessionMigrations));
  const node = { Name: "node", HostVolumes: { data: volume("/a") } };
  const hello = { boot: "b", epoch: 1, agent: "1.0.0", node, unavailableVolumes: [] } as unknown as Hello;
  record.begin({ id: "link" } as Link, hello, 0);
  record.acknowledge(record.change().seq);
  record.volumesChanged(usable("/a"), 1);
  expect(record.change()).not.toHaveProperty("volumes");
  record.volumesChanged(usable("/b"), 2);
  expect(record.change().volumes).toEqual({ put: [volume("/b")], gone: [] });
});

it("a hello without CSI plugins removes those of an earlier one", () => {
  const record = new SessionRecord(memorySql(sessionMigrations));
  const begin = (more: object) => {
    const node = { Name: "node", HostVolumes: {}, ...more };
    const hello = { boot: "b", epoch: 1, agent: "0.1.0", node, unavailableVolumes: [] } as unknown as Hello;
    record.begin({ id: "link" } as Link, hello, 0);
    return record.change().report?.node;
  };
  const plugins = { CSIControllerPlugins: { disk: { Healthy: true } }, CSINodePlugins: { disk: { Healthy: true } } };
  expect(begin(plugins)).toMatchObject(plugins);
  const node = begin({});
  expect([node?.CSIControllerPlugins, node?.CSINodePlugins]).toEqual([{}, {}]);
});
