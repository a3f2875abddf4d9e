import { type Answer, get } from "./client.ts";
import { nodeId } from "./host-volumes.ts";
import { allocation, job, type Reported } from "./reports.ts";

/** Helpers for tests of sticky claims. */

type Claim = Answer["body"];

/** A job whose group `g` asks for these host volumes, sticky by default. */
export const stickyJob = (sources: readonly string[] = ["db"], more: object = {}, request: object = {}): Reported =>
  job({
    ID: "web",
    Version: 1,
    TaskGroups: [
      {
        Name: "g",
        Volumes: Object.fromEntries(
          sources.map((Source, at) => [`v${at}`, { Type: "host", Name: `v${at}`, Source, Sticky: true, ...request }]),
        ),
      },
    ],
    ...more,
  });

/** An allocation of that job's group on the first node. */
export const placed = (ID: string, more: object = {}): Reported =>
  allocation({ ID, JobID: "web", JobVersion: 1, TaskGroup: "g", NodeID: nodeId(1), ...more });

export const ended = (ID: string, more: object = {}): Reported => placed(ID, { ClientStatus: "complete", ...more });

/** A page of claims in the neutral dialect; by default all of them. */
export const listClaims = (query = "", options?: Parameters<typeof get>[1]): Promise<Answer> =>
  get(`/v1/volumes/claims?namespace=*&per_page=0${query}`, options);

export const claims = async (query = ""): Promise<Claim[]> => (await listClaims(query)).body.Claims;

/** The holder of each volume. */
export const holders = async (query = ""): Promise<[volume: string, alloc: string][]> =>
  (await claims(query)).map(({ VolumeName, AllocID }) => [VolumeName, AllocID] as [string, string]).sort();
