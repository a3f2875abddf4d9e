/** One secret of a version 2 engine. */
import { useState } from "preact/hooks";
import { api, isDenied, type Schemas } from "../../api/client.ts";
import { go, href, place, setQuery } from "../../app/router.ts";
import { Button, LinkButton } from "../../components/button.tsx";
import { confirmed } from "../../components/confirm.tsx";
import { CopyButton } from "../../components/copy.tsx";
import { ErrorPanel } from "../../components/error-panel.tsx";
import { Select } from "../../components/field.tsx";
import { Menu } from "../../components/menu.tsx";
import { Ago } from "../../components/moments.tsx";
import { Empty, Loading } from "../../components/states.tsx";
import { Status } from "../../components/status.tsx";
import { Tabs } from "../../components/tabs.tsx";
import { toast } from "../../components/toasts.tsx";
import { type Resource, useAction, useResource } from "../../lib/resource.ts";
import { minute, timeText } from "../../lib/time.ts";
import { baseOf, type KvMount, mountHref } from "./addresses.ts";
import { Destinations } from "./destinations.tsx";
import { expiryOf, expiryStatus } from "./expiry.ts";
import { Metadata } from "./metadata.tsx";
import { MoveDialog } from "./move-dialog.tsx";
import { readMetadata, readVersion, stateOf, type Version } from "./reads.ts";
import { SecretEditor } from "./secret-editor.tsx";
import { ShareDialog } from "./share.tsx";
import { ValueTable } from "./value-table.tsx";
import { Versions } from "./versions.tsx";

interface SecretProps {
  readonly mount: KvMount;
  readonly path: string;
  /** After a write; null when the secret is gone. */
  readonly onChange: (path: string | null) => void;
}

export function Secret({ mount, path, onChange }: SecretProps) {
  const wanted = Number(place.value.query.get("version") ?? 0);
  const metadata = useResource(["metadata", mount.path, path], (signal) => readMetadata(mount.path, path, signal));
  const value = useResource(["value", mount.path, path, wanted], (signal) =>
    readVersion(mount.path, path, wanted, signal),
  );
  const [isEditing, setEditing] = useState(false);
  const [shares, setShares] = useState(false);
  const [moves, setMoves] = useState(false);
  const reload = (): void => {
    metadata.reload();
    value.reload();
  };
  const at = { mount: mount.path, path: { path } };
  const versions = Object.keys(metadata.value?.versions ?? {}).length;
  const expires = expiryOf(metadata.value?.custom_metadata);
  const isGone = metadata.value === null && value.value === null;

  const deleteNewest = (): void => {
    void confirmed(
      {
        title: `Delete the newest version of ${baseOf(path)}?`,
        text: "Readers then get no values, and destinations get the version before. Undelete brings it back.",
        verb: "Delete the newest version",
        isDangerous: true,
      },
      "DELETE /v1/secret/data/{path}",
      at,
    ).then((isDone) => isDone && reload());
  };
  const deleteAll = (): void => {
    void confirmed(
      {
        title: `Delete ${baseOf(path)} with all its versions?`,
        text: "Values and metadata are removed for good, also at the destinations that it is synced to. This cannot be undone.",
        verb: "Delete the secret",
        isDangerous: true,
        typed: baseOf(path),
      },
      "DELETE /v1/secret/metadata/{path}",
      at,
    ).then((isDone) => {
      if (!isDone) return;
      toast(`${path} is deleted.`);
      onChange(null);
    });
  };
  return (
    <article aria-label={`Secret ${path}`}>
      <div class="secrets-head">
        <div class="with-copy">
          <span class="secrets-back">
            <LinkButton href={mountHref(mount.path)} kind="quiet">
              All secrets
            </LinkButton>
          </span>
          <h2>{path}</h2>
          <CopyButton text={path} label="the path" />
          {expires !== null && <Expiry at={expires} />}
        </div>
        {!isGone && (
          <div class="row">
            <Button
              icon="edit"
              needs={`POST ${mount.path}/data/${path}`}
              onClick={() => setEditing(true)}
              disabled={value.value === undefined && value.error === null}
            >
              Write a new version
            </Button>
            <Menu
              label="More about the secret"
              items={[
                {
                  label: "Share once",
                  icon: "link",
                  needs: `GET ${mount.path}/data/${path}`,
                  onSelect: () => setShares(true),
                },
                {
                  label: "Who read and wrote it",
                  icon: "audit",
                  needs: "GET sys/audit/lines",
                  onSelect: () => go(href("audit", [], { q: `${mount.path}/data/${path}` })),
                },
                {
                  label: "Move or rename",
                  icon: "right",
                  needs: `DELETE ${mount.path}/metadata/${path}`,
                  onSelect: () => setMoves(true),
                },
                { label: "Read again", icon: "refresh", onSelect: reload },
                {
                  label: "Delete the newest version",
                  icon: "trash",
                  needs: `DELETE ${mount.path}/data/${path}`,
                  onSelect: deleteNewest,
                  isDangerous: true,
                },
                {
                  label: "Delete the secret",
                  icon: "trash",
                  needs: `DELETE ${mount.path}/metadata/${path}`,
                  onSelect: deleteAll,
                  isDangerous: true,
                },
              ]}
            />
          </div>
        )}
      </div>
      {isGone ? (
        <div class="card">
          <Empty title="There is no such secret">It was deleted, or was never written.</Empty>
        </div>
      ) : (
        <Tabs
          label="Parts of the secret"
          tabs={[
            {
              name: "values",
              label: "Values",
              content: () => <Values at={at} value={value} metadata={metadata} wanted={wanted} onChange={reload} />,
            },
            {
              name: "versions",
              label: "Versions",
              badge: versions || "",
              content: () => <Versions at={at} metadata={metadata} onChange={reload} />,
            },
            { name: "metadata", label: "Metadata", content: () => <Metadata at={at} metadata={metadata} /> },
            {
              name: "destinations",
              label: "Destinations",
              content: () => (
                <Destinations mount={mount.path} path={path} newest={metadata.value?.current_version ?? null} />
              ),
            },
          ]}
        />
      )}
      {shares && (
        <ShareDialog
          name={path}
          version={wanted || undefined}
          onClose={() => setShares(false)}
          requestOf={(wrapTtl) => [
            "GET /v1/secret/data/{path}",
            { ...at, query: wanted > 0 ? { version: wanted } : {}, wrapTtl },
          ]}
        />
      )}
      {moves && <MoveDialog mount={mount} path={path} onClose={() => setMoves(false)} onDone={() => onChange(null)} />}
      {isEditing && (
        <SecretEditor
          mount={mount}
          path={path}
          folder=""
          current={value.value === null ? null : value.value?.data}
          version={(wanted === 0 && value.value?.metadata.version) || metadata.value?.current_version}
          onClose={() => setEditing(false)}
          onDone={() => {
            setQuery({ version: null });
            reload();
          }}
        />
      )}
    </article>
  );
}

function Expiry({ at }: { readonly at: number }) {
  const { tone, text } = expiryStatus(at, minute.value);
  return (
    <Status tone={tone} title={timeText(at)}>
      {text}
    </Status>
  );
}

export interface At {
  readonly mount: string;
  readonly path: { readonly path: string };
}

interface ValuesProps {
  readonly at: At;
  readonly value: Resource<Version | null>;
  readonly metadata: Resource<Schemas["SecretMetadata"] | null>;
  readonly wanted: number;
  readonly onChange: () => void;
}

function Values({ at, value, metadata, wanted, onChange }: ValuesProps) {
  const undelete = useAction(async (version: number) => {
    await api("POST /v1/secret/undelete/{path}", { ...at, body: { versions: [version] } });
    toast(`Version ${version} is back.`);
    onChange();
  });
  if (value.error !== null) {
    return (
      <ErrorPanel
        error={value.error}
        onRetry={value.reload}
        {...(isDenied(value.error) ? { title: "You may not read the values" } : {})}
      />
    );
  }
  if (value.value === undefined) return <Loading label="Reading the values" />;
  const newest = metadata.value?.current_version ?? 0;
  const chooser = metadata.value && newest > 1 && (
    <VersionChooser
      versions={metadata.value.versions}
      newest={newest}
      selected={value.value?.metadata.version ?? wanted}
    />
  );
  if (value.value === null)
    return (
      <>
        <div class="toolbar">{chooser}</div>
        <Empty title={`There is no version ${wanted}`}>
          It was removed, because the engine keeps a number of versions only.
        </Empty>
      </>
    );
  const { data, metadata: about } = value.value;
  const state = stateOf(about);
  if (data === null || state !== "live")
    return (
      <>
        <div class="toolbar">{chooser}</div>
        <div class="card">
          <Empty
            title={`Version ${about.version} is ${state}`}
            actions={
              state === "deleted" && (
                <Button
                  isBusy={undelete.isBusy}
                  needs={`POST ${at.mount}/undelete/${at.path.path}`}
                  onClick={() => void undelete.run(about.version)}
                >
                  Undelete version {about.version}
                </Button>
              )
            }
          >
            {state === "deleted"
              ? "Its values are kept until the version is destroyed."
              : "Its values are removed for good."}
          </Empty>
        </div>
        {undelete.error !== null && <ErrorPanel error={undelete.error} />}
      </>
    );
  return (
    <ValueTable key={about.version} data={data}>
      {chooser}
      <span class="muted">
        Version {about.version}, written <Ago at={about.created_time} />
      </span>
    </ValueTable>
  );
}

function VersionChooser({
  versions,
  newest,
  selected,
}: {
  readonly versions: Schemas["SecretMetadata"]["versions"];
  readonly newest: number;
  readonly selected: number;
}) {
  const options = Object.entries(versions)
    .map(([name, entry]) => ({ number: Number(name), state: stateOf(entry) }))
    .sort((a, b) => b.number - a.number);
  return (
    <Select
      label="Version"
      value={String(selected)}
      onChange={(chosen) => setQuery({ version: chosen === String(newest) ? null : chosen })}
      options={options.map(({ number, state }) => [
        String(number),
        `Version ${number}${number === newest ? ", newest" : ""}${state === "live" ? "" : `, ${state}`}`,
      ])}
    />
  );
}
