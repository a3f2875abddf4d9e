/** Compares the secrets of two folders, engines or namespaces, and copies across. */
import { useState } from "preact/hooks";
import { secretsNamespace } from "../../api/namespaces.ts";
import { go, href, place } from "../../app/router.ts";
import { Button } from "../../components/button.tsx";
import { TextField } from "../../components/field.tsx";
import { Page, Toolbar } from "../../components/page.tsx";
import { Empty, Loaded, Loading, Progress } from "../../components/states.tsx";
import { Status, type Tone } from "../../components/status.tsx";
import { DataTable } from "../../components/table.tsx";
import { useResource } from "../../lib/resource.ts";
import { count, plural } from "../../lib/text.ts";
import { compareHref, type KvMount, mountHref } from "./addresses.ts";
import { CompareDialog } from "./compare-dialog.tsx";
import { compare, MAX_SECRETS, type Outcome, placeOf, type Side, sideText } from "./compare-reads.ts";
import { readMounts } from "./reads.ts";
import { useSecretNames } from "./secret-names.ts";

const OUTCOMES: Readonly<Record<Outcome["state"], readonly [Tone, string]>> = {
  differs: ["warn", "Differs"],
  "only-left": ["bad", "Only on the left"],
  "only-right": ["bad", "Only on the right"],
  unread: ["off", "Not readable"],
  same: ["ok", "Same"],
};

const ORDER = Object.keys(OUTCOMES);

/** The root namespace has no name, which an address would leave out. */
const ROOT = "root";

const namespaceOf = (text: string | null): string => (text === ROOT ? "" : (text ?? secretsNamespace.value));

const trimmed = (text: string): string => text.trim().replace(/^\/+|\/+$/g, "");

export function Compare({ mount, path }: { readonly mount: KvMount; readonly path: string }) {
  const { query } = place.value;
  const left: Side = { namespace: secretsNamespace.value, mount: mount.path, path };
  const other = query.get("with");
  const right: Side | null =
    other === null ? null : { namespace: namespaceOf(query.get("of")), mount: other, path: query.get("at") ?? "" };
  return (
    <Page
      title={`Compare ${sideText(left)}`}
      crumbs={[
        { label: "Secrets", href: href("secrets") },
        { label: `${mount.path}/`, href: mountHref(mount.path) },
      ]}
      about="Values are compared in the browser, and hidden until you reveal them."
    >
      <Other left={left} right={right} />
      {right && <Outcomes key={JSON.stringify([left, right])} left={left} right={right} />}
    </Page>
  );
}

/** The form of both sides. */
function Other({ left, right }: { readonly left: Side; readonly right: Side | null }) {
  const mounts = useResource(["compare-mounts"], readMounts);
  const [namespace, setNamespace] = useState(right?.namespace ?? left.namespace);
  const [mount, setMount] = useState(right?.mount ?? left.mount);
  const [path, setPath] = useState(right?.path ?? "");
  const [own, setOwn] = useState(left.path);
  const list = (mounts.value?.kv ?? []).filter(({ version }) => version === 2).map((entry) => entry.path);
  const isHere = namespace === left.namespace && list.includes(trimmed(mount));
  const owns = useSecretNames(left.mount, own);
  const names = useSecretNames(isHere ? trimmed(mount) : "", path);
  return (
    <form
      class="secrets-compare-form"
      aria-label="Both sides"
      onSubmit={(event) => {
        event.preventDefault();
        const named = trimmed(namespace);
        const of = named === ROOT ? "" : named;
        const query = { with: trimmed(mount), at: trimmed(path), of: of === left.namespace ? null : of || ROOT };
        go(compareHref(left.mount, trimmed(own), query));
      }}
    >
      <TextField
        label={`On the left, in ${left.mount}/`}
        value={own}
        onChange={setOwn}
        list={owns}
        mono
        placeholder="the whole engine"
      />
      <TextField label="On the right, namespace" value={namespace} onChange={setNamespace} mono placeholder="root" />
      <TextField label="On the right, engine" value={mount} onChange={setMount} list={list} mono required />
      <TextField
        label="On the right, folder or secret"
        value={path}
        onChange={setPath}
        list={names}
        mono
        placeholder="the whole engine"
      />
      <Button type="submit" kind={right ? "normal" : "primary"}>
        Compare
      </Button>
    </form>
  );
}

function Outcomes({ left, right }: { readonly left: Side; readonly right: Side }) {
  const [progress, setProgress] = useState<readonly [done: number, total: number] | null>(null);
  const found = useResource(["compare", left, right], (signal) =>
    compare(left, right, signal, (done, total) => setProgress([done, total])),
  );
  const [hidesSame, setHidesSame] = useState(true);
  const [opened, setOpened] = useState<string | null>(null);
  if (found.isLoading && !found.value)
    return progress ? (
      <Progress done={progress[0]} total={progress[1]} label="Secrets compared" />
    ) : (
      <Loading label="Reading the names of both sides" />
    );
  return (
    <Loaded resource={found} label="The secrets of both sides">
      {({ outcomes, refused, left: behind }) => {
        const same = outcomes.filter(({ state }) => state === "same").length;
        const unread = outcomes.filter(({ state }) => state === "unread").length;
        const rows = outcomes
          .filter(({ state }) => !(hidesSame && state === "same"))
          .toSorted((a, b) => ORDER.indexOf(a.state) - ORDER.indexOf(b.state));
        const missing = [right, left].find((_, side) =>
          outcomes.every(({ state }) => state === (side === 0 ? "only-left" : "only-right")),
        );
        const unseen = [
          missing && outcomes.length > 0 ? `no secret in ${sideText(missing)}` : "",
          unread > 0 ? `${plural(unread, "secret")} not readable on a side` : "",
          refused > 0 ? `${plural(refused, "folder")} may not be listed` : "",
          behind > 0 ? `at least ${count(behind)} more were not compared: at most ${count(MAX_SECRETS)} are` : "",
        ].filter(Boolean);
        return (
          <>
            <Toolbar>
              <span role="status">
                {plural(outcomes.length - same - unread, "difference")}, {plural(same, "secret is", "secrets are")} the
                same
                {unseen.length > 0 && `; ${unseen.join("; ")}`}
              </span>
              {same > 0 && (
                <Button onClick={() => setHidesSame(!hidesSame)}>
                  {hidesSame ? "Show the same ones" : "Hide the same ones"}
                </Button>
              )}
              <Button icon="refresh" onClick={found.reload} isBusy={found.isLoading}>
                Compare again
              </Button>
            </Toolbar>
            <DataTable
              label="Differences"
              rows={rows}
              keyOf={({ name }) => name}
              onOpen={({ name }) => setOpened(name)}
              columns={[
                {
                  key: "state",
                  label: "State",
                  width: "11rem",
                  render: ({ state }) => <Status tone={OUTCOMES[state][0]}>{OUTCOMES[state][1]}</Status>,
                },
                {
                  key: "name",
                  label: "Secret",
                  render: ({ name }) => <span class="mono">{name || placeOf(left, name).path}</span>,
                },
                {
                  key: "note",
                  label: "Difference",
                  isMinor: true,
                  render: ({ state, note }) => (state === "differs" ? plural(Number(note), "key") : note),
                },
              ]}
              empty={
                <div class="card">
                  <Empty title={outcomes.length > 0 ? "Both sides have the same values" : "Neither side has a secret"}>
                    {unseen.length > 0 && "As far as your token may see them."}
                  </Empty>
                </div>
              }
            />
            {opened !== null && (
              <CompareDialog
                left={left}
                right={right}
                name={opened}
                onClose={() => setOpened(null)}
                onChanged={found.reload}
              />
            )}
          </>
        );
      }}
    </Loaded>
  );
}
