// Declares the bench's own packages for a type check without them. Its other imports belong to the product.
declare module 'pg-boss' {
  export class PgBoss {
    constructor(options: object);
    on(event: 'error', listener: (error: unknown) => void): void;
    start(): Promise<unknown>;
    createQueue(name: string): Promise<void>;
    work<Data>(
      name: string,
      options: object,
      handle: (jobs: readonly { readonly data: Data }[]) => Promise<void>,
    ): Promise<string>;
    insert(name: string, jobs: readonly { readonly data: object }[]): Promise<unknown>;
    stop(options: object): Promise<void>;
  }
}
