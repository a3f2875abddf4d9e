import { useState } from "preact/hooks";
import { api, wireRequest } from "../../api/client.ts";
import { go, href, useAsked } from "../../app/router.ts";
import { Button } from "../../components/button.tsx";
import { SelectField, TextField } from "../../components/field.tsx";
import { FormDialog } from "../../components/form-dialog.tsx";
import { Countdown } from "../../components/moments.tsx";
import { Page } from "../../components/page.tsx";
import { Empty, Loaded, noneOf } from "../../components/states.tsx";
import { Status } from "../../components/status.tsx";
import { type Column, DataTable } from "../../components/table.tsx";
import { Tabs } from "../../components/tabs.tsx";
import { inParallel } from "../../lib/parallel.ts";
import { useResource } from "../../lib/resource.ts";
import { count } from "../../lib/text.ts";
import { ChooseRole } from "./choose-role.tsx";
import { ENGINE_TYPES } from "./engine-types.ts";
import { Issuer } from "./issuer.tsx";
import {
  countsOf,
  type Engine,
  type EngineConfig,
  isConfigured,
  MAX_CONCURRENT,
  readConfig,
  readEngines,
  readLeaseCounts,
} from "./reads.ts";

const FRESH_MS = 10_000;

export const engineHref = (mount: string, query: Readonly<Record<string, string | null>> = {}): string =>
  href("credentials", [mount], query);

/** A configuration, null when there is none; or a read that was refused. */
type Read = { readonly value: EngineConfig | null } | "refused";

const settingsOf = (read: Read | undefined): EngineConfig | null =>
  read === undefined || read === "refused" ? null : read.value;

interface Row extends Engine {
  /** Undefined while it is being read. */
  readonly config: Read | undefined;
  readonly leases: number | null;
  readonly irrevocable: number | null;
}

const COLUMNS: readonly Column<Row>[] = [
  { key: "path", label: "Engine", render: ({ path }) => path, sort: ({ path }) => path },
  {
    key: "type",
    label: "Provider",
    width: "8rem",
    isMinor: true,
    render: ({ type }) => type.label,
    sort: ({ type }) => type.label,
  },
  {
    key: "state",
    label: "State",
    width: "11rem",
    render: (row) => {
      const { config, irrevocable } = row;
      if (config === undefined) return <span class="muted">reading …</span>;
      if (irrevocable) return <Status tone="bad">{`${irrevocable} irrevocable`}</Status>;
      if (config === "refused") return <Status tone="off">Not readable</Status>;
      return isConfigured(row, config.value) ? (
        <Status tone="ok">Configured</Status>
      ) : (
        <Status tone="warn">Not configured</Status>
      );
    },
  },
  {
    key: "leases",
    label: "Leases",
    width: "6rem",
    align: "end",
    render: ({ leases }) => (leases === null ? "–" : count(leases)),
  },
  {
    key: "login",
    label: "Logs in with",
    width: "10rem",
    isMinor: true,
    render: (row) => {
      const config = settingsOf(row.config);
      return isConfigured(row, config) ? (config?.identity_token_audience ? "federation" : "a secret") : "–";
    },
  },
  {
    key: "ends",
    label: "Root secret ends in",
    width: "11rem",
    isMinor: true,
    render: ({ config }) => {
      const ends = settingsOf(config)?.root_password_expiration_date;
      return ends ? <Countdown to={ends} /> : "–";
    },
  },
  { key: "about", label: "Description", isMinor: true, render: ({ description }) => description },
];

/** Engines that make cloud credentials, and the issuer that they may log in with. */
export function Engines() {
  const engines = useResource(["engines"], readEngines);
  const [isOpen, setOpen] = useState(false);
  const [issues, setIssues] = useState(false);
  useAsked("new", () => setIssues(true));
  const enable = (
    <Button icon="plus" needs="POST sys/mounts/*" onClick={() => setOpen(true)}>
      Enable engine
    </Button>
  );
  return (
    <Page
      title="Credentials"
      about="Engines make credentials of a cloud on request, and remove them when their lease ends."
      actions={
        <>
          {enable}
          {engines.value && engines.value.length > 0 && (
            <Button icon="key" kind="primary" onClick={() => setIssues(true)}>
              Issue credentials
            </Button>
          )}
        </>
      }
    >
      <Tabs
        label="Parts of the credentials screen"
        tabs={[
          {
            name: "engines",
            label: "Engines",
            badge: engines.value?.length,
            content: () => (
              <Loaded resource={engines} label="Engines">
                {(list) =>
                  list.length === 0 ? (
                    <Empty title={noneOf("credentials engine")} actions={enable}>
                      Enable one, give it an identity at your provider, then write a role: it says what issued
                      credentials may do. If there should be one, your token may have no right below it, or it is in
                      another namespace.
                    </Empty>
                  ) : (
                    <EngineTable engines={list} />
                  )
                }
              </Loaded>
            ),
          },
          { name: "issuer", label: "Identity issuer", content: () => <Issuer /> },
        ]}
      />
      {isOpen && <Enable onClose={() => setOpen(false)} />}
      {issues && engines.value && <ChooseRole engines={engines.value} onClose={() => setIssues(false)} />}
    </Page>
  );
}

function EngineTable({ engines }: { readonly engines: readonly Engine[] }) {
  const configs = useResource(
    ["configs", engines.map(({ path }) => path)],
    async (signal) => {
      const read = await inParallel(engines, MAX_CONCURRENT, (engine) =>
        readConfig(engine, signal, engine.type.paths.config, true).then(
          (value): Read => ({ value }),
          (): Read => "refused",
        ),
      );
      return new Map(engines.map(({ path }, at) => [path, read[at]]));
    },
    { everyMs: FRESH_MS },
  );
  const counts = useResource(["lease counts"], readLeaseCounts, { everyMs: FRESH_MS });
  return (
    <DataTable
      label="Engines"
      rows={engines.map((engine) => ({
        ...engine,
        config: configs.value?.get(engine.path),
        ...(counts.value ? countsOf(counts.value, engine) : { leases: null, irrevocable: null }),
      }))}
      columns={COLUMNS}
      keyOf={({ path }) => path}
      hrefOf={({ path }) => engineHref(path)}
    />
  );
}

const ENABLE = "POST /v1/sys/mounts/{path}";

function Enable({ onClose }: { readonly onClose: () => void }) {
  const [type, setType] = useState(ENGINE_TYPES[0]?.type ?? "");
  const provider = ENGINE_TYPES.find((each) => each.type === type);
  // The provider's own name, until another path is typed.
  const [typed, setPath] = useState<string | null>(null);
  const path = typed ?? provider?.upstream ?? "";
  const [description, setDescription] = useState("");
  const [ttl, setTtl] = useState("");
  const [maxTtl, setMaxTtl] = useState("");
  const config = {
    ...(ttl && { default_lease_ttl: ttl }),
    ...(maxTtl && { max_lease_ttl: maxTtl }),
  };
  const options = {
    path: { path },
    body: {
      type: type as "cloud-b",
      ...(description && { description }),
      ...(Object.keys(config).length > 0 && { config }),
    },
  };
  const enable = async (): Promise<void> => {
    await api(ENABLE, options);
    go(engineHref(path.replace(/^\/+|\/+$/g, ""), { tab: "config" }));
  };
  return (
    <FormDialog
      title="Enable engine"
      verb="Enable engine"
      onClose={onClose}
      perform={enable}
      request={wireRequest(ENABLE, options)}
    >
      {({ problems }) => (
        <>
          <SelectField
            label="Provider"
            value={type}
            onChange={setType}
            options={ENGINE_TYPES.map((each) => ({ value: each.type, label: each.label }))}
            hint={provider?.about}
          />
          <TextField
            label="Path"
            value={path}
            onChange={setPath}
            required
            mono
            autofocus
            hint="Begins the paths of all its requests."
          />
          <TextField label="Description" value={description} onChange={setDescription} />
          <TextField
            label="Default life of leases"
            value={ttl}
            onChange={setTtl}
            placeholder="1h"
            hint="The default for roles without a TTL of their own. Empty: 768 hours."
            error={problems["config.default_lease_ttl"]}
          />
          <TextField
            label="Longest life of leases"
            value={maxTtl}
            onChange={setMaxTtl}
            placeholder="24h"
            error={problems["config.max_lease_ttl"]}
          />
        </>
      )}
    </FormDialog>
  );
}
