/** A message that is new under a cursor. */
export interface NewMessage {
  readonly seq: number;
  readonly role: 'user' | 'assistant';
  readonly text: string;
  readonly at: Date;
  readonly name: string | null;
}
