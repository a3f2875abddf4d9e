import { useState } from "preact/hooks";
import { api, isMissing } from "../../api/client.ts";
import { Button, LinkButton } from "../../components/button.tsx";
import { confirmed } from "../../components/confirm.tsx";
import { CopyButton } from "../../components/copy.tsx";
import { Empty, Loaded } from "../../components/states.tsx";
import { useResource } from "../../lib/resource.ts";
import { baseOf, type KvMount, mountHref } from "./addresses.ts";
import { MoveDialog } from "./move-dialog.tsx";
import type { SecretData } from "./reads.ts";
import { SecretEditor } from "./secret-editor.tsx";
import { ShareDialog } from "./share.tsx";
import { ValueTable } from "./value-table.tsx";

/** One secret of a version 1 engine: a value without versions. */
export function PlainSecret({
  mount,
  path,
  onChange,
}: {
  readonly mount: KvMount;
  readonly path: string;
  readonly onChange: (path: string | null) => void;
}) {
  const [isEditing, setEditing] = useState(false);
  const [shares, setShares] = useState(false);
  const [moves, setMoves] = useState(false);
  const at = { mount: mount.path, path: { path } };
  const value = useResource(["value", mount.path, path], async (signal): Promise<SecretData | null> => {
    try {
      return (await api("GET /v1/kv-v1/{path}", { ...at, signal, sensitive: true })).data as SecretData;
    } catch (failure) {
      if (isMissing(failure)) return null;
      throw failure;
    }
  });
  const remove = (): void => {
    void confirmed(
      {
        title: `Delete ${baseOf(path)}?`,
        text: "The values are removed for good: this engine keeps no versions.",
        verb: "Delete the secret",
        isDangerous: true,
        typed: baseOf(path),
      },
      "DELETE /v1/kv-v1/{path}",
      at,
    ).then((isDone) => isDone && onChange(null));
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
        </div>
        <div class="row">
          <Button
            icon="edit"
            needs={`POST ${mount.path}/${path}`}
            onClick={() => setEditing(true)}
            disabled={value.value === undefined && value.error === null}
          >
            Write new values
          </Button>
          <Button icon="link" onClick={() => setShares(true)}>
            Share once
          </Button>
          <Button icon="right" needs={`DELETE ${mount.path}/${path}`} onClick={() => setMoves(true)}>
            Move or rename
          </Button>
          <Button kind="danger" icon="trash" needs={`DELETE ${mount.path}/${path}`} onClick={remove}>
            Delete
          </Button>
        </div>
      </div>
      <Loaded resource={value} label="The values">
        {(data) => (data === null ? <Empty title="There is no such secret" /> : <ValueTable data={data} />)}
      </Loaded>
      {shares && (
        <ShareDialog
          name={path}
          onClose={() => setShares(false)}
          requestOf={(wrapTtl) => ["GET /v1/kv-v1/{path}", { ...at, wrapTtl }]}
        />
      )}
      {moves && <MoveDialog mount={mount} path={path} onClose={() => setMoves(false)} onDone={() => onChange(null)} />}
      {isEditing && (
        <SecretEditor
          mount={mount}
          path={path}
          folder=""
          current={value.value}
          onClose={() => setEditing(false)}
          onDone={value.reload}
        />
      )}
    </article>
  );
}
