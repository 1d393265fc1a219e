import fc from 'fast-check';

/** The same cases in every run, so that results agree everywhere; `FC_SEED` selects others. */
fc.configureGlobal({ seed: Number(process.env['FC_SEED'] ?? 1) });

export { fc };
