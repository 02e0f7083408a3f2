/* Parameters that are not trained, named by a list "NAME,NAME,...": a tensor ("embeddings.LayerNorm.bias"), a
   part of the model as the first words of tensor names ("embeddings", "encoder.layer.0"), "trunk": all that
   is not part of an objective, or "all-but-own": all but the tensors that mechanisms learn (the hashes of
   lha), to fit a mechanism to a trained model. With `last` layers, all before these is not trained either.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_FREEZE_H
#define TRAIN_FREEZE_H

#include "models/model.h"
#include "train/optim.h"

/* The ranges of the parameter block that are trained, rising; neighbours are one range. The caller frees
   *ranges with memory_free. An empty list and `last` 0 give NULL. INVALID: a name matches no tensor (the
   message lists the parts that there are), the model has fewer layers, or nothing is left to train. */
hashattn_status freeze_ranges(struct host *host, const char *list, int64_t last, const struct model *model,
                              struct param_range **ranges, size_t *num_ranges);

/* True if all that is trained are parameters of mechanisms that have an own loss, which alone trains them. */
bool freeze_leaves_own_losses(const struct model *model, const struct param_range *ranges, size_t num_ranges);

#endif
