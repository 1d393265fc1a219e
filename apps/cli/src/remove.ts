import type { Session } from './session.ts';

/** Deletes a record after a question. */
export async function removeRecord(
  session: Session,
  id: string,
  question: string,
  remove: () => Promise<unknown>,
): Promise<undefined> {
  if (!(await session.confirm(question))) {
    session.out.note('Nothing was deleted.');
    return;
  }
  await remove();
  await session.out.record({ id, deleted: true }, () => `${id}  deleted`);
}
