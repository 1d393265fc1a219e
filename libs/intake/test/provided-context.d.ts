import 'vitest';

declare module 'vitest' {
  interface ProvidedContext {
    /** Superuser URL of an empty PostgreSQL; see test/global-setup.ts. */
    postgresUrl: string;
  }
}
