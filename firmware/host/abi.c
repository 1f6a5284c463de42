/* What a caller that declares the structures in another language checks before it uses them. */
#include "skills.h"
#include "table.h"

extern const uint32_t KG_SIZES[];
const uint32_t KG_SIZES[] = {sizeof(kg_settings), sizeof(kg_pose), sizeof(kg_skill), sizeof(kg_block), sizeof(kg_run),
                             sizeof(kg_agent),    sizeof(kg_decision), sizeof(kg_entry)};
